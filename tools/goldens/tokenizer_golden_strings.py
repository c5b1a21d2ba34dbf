# SPDX-License-Identifier: Apache-2.0
"""The texts of make_tokenizer_goldens.py: what the small tokenizers are trained on, and strings chosen to be difficult."""
import random
import unicodedata

TRAINING_TEXT = [
    "The mason cuts each stone so that its faces are flat, and the wall needs no mortar. When the stones are true, the "
    "joints are thin; when they aren't, it's the wall that tells. We'll see what they've built, said the apprentice, and "
    "I'd rather not guess. He doesn't know, she won't say, you're late, I'm here.",
    "A tokenizer reads text and writes numbers. Numbers such as 1, 22, 333, 4444, 55555 and 3.14159 are split; words are "
    "merged. The quick brown fox jumps over the lazy dog, then the dog jumps over the fox. International information "
    "about the organisation of communication.",
    "def add(left, right):\n    if left is None:\n        return right\n    return left + right\n\n\nfor (int i = 0; i < n; ++i) "
    "{\n\tsum += values[i] * weights[i];  // dot product\n}\nreturn std::vector<float>(sum);\n",
    "Der Steinmetz prüft die Fläche: groß, größer, am größten. Über die Brücke führt eine Straße. Schließlich hört er auf.",
    "Le tailleur de pierre façonne chaque bloc; l'été, il déjeune à l'ombre. Où est passé le maître d'œuvre ? Garçon, voilà.",
    "El cantero midió la piedra dos veces y la cortó una. ¿Cuántos años tiene el niño? ¡Mañana será otro día!",
    "Каменщик проверяет каждую грань камня. Стена стоит без раствора, потому что камни подогнаны. Это было давно.",
    "石工把每一块石头磨平，所以墙不需要灰浆。我们今天学习怎样把文字变成数字。你好，世界！今天天气很好。",
    "石工は石を平らに切ります。東京の天気はどうですか。カタカナとひらがなを混ぜて書きます。",
    "석공은 돌을 평평하게 자릅니다. 오늘 날씨가 좋습니다. 안녕하세요 세계.",
    "الحجر المنحوت لا يحتاج إلى ملاط. السلام عليكم ورحمة الله.",
    "पत्थर काटने वाला हर पत्थर को समतल करता है। नमस्ते दुनिया।",
    "Ο λιθοξόος ελέγχει κάθε πέτρα. Καλημέρα κόσμε, τι κάνεις;",
    "האבן נחתכת ביד. שלום עולם.",
    "ช่างหินตัดหินให้เรียบ สวัสดีชาวโลก",
    "    indented\n        twice\n\t\ttabs   and   spaces     \r\nwindows line\r\n\r\n   \n\n\n",
    "🙂 🙂🙂 👍 👍🏽 ❤️ 🚀 → ← ≤ ≥ … – — “quoted” ‘single’ «guillemets» €100 £5 ¥300 ±2° ½ ² ™ ©",
]

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "<think>", "</think>",
            "<tool_call>", "<|mask|>", "[gMASK]", "<role>", "<s>", "</s>", "<unk>", "[UNK]", "<0x41>", "<mask>", "<|im",
            "<|vision_pad|>", "<|im_start|>user", "<mask>s", "<|end|>", "<|end", "<m"]

# One or two words in many scripts.
SCRIPTS = [
    "hello world", "Ünïcödé", "привет мир", "γειά σου Κόσμε", "שלום", "مرحبا بالعالم", "नमस्ते", "নমস্কার", "வணக்கம்", "నమస్కారం",
    "ನಮಸ್ಕಾರ", "നമസ്കാരം", "ආයුබෝවන්", "สวัสดี", "ສະບາຍດີ", "བཀྲ་ཤིས", "မင်္ဂလာပါ", "გამარჯობა", "አማርኛ", "ᏣᎳᎩ", "ᐃᓄᒃᑎᑐᑦ",
    "ភាសាខ្មែរ", "ᠮᠣᠩᠭᠣᠯ", "你好世界", "漢字かな交じり", "カタカナ", "ﾊﾝｶｸ", "안녕하세요", "ꦗꦮ", "ⵜⵉⴼⵉⵏⴰⵖ", "𐌲𐌿𐍄", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "𞤀𞤁𞤂", "𒀀𒁀", "𓀀𓁀", "Ａｂｃ１２３", "ⅠⅡⅢ", "①②③", "٠١٢٣", "०१२३", "๐๑๒", "𝟘𝟙𝟚", "½¼¾", "ﬁﬂﬆ", "ŉ", "ǆ Ǆ ǅ", "ẞß", "İıIi",
    "ΣσςΣ", "ſ", "K", "Å", "Ω", "㎏", "㈱", "ﷺ", "𠀀𠀁", "\U00031350\U000323af", "\U0002ebf0", "\U00011f00",
    "\U0001e030", "\U0001fae8", "\u1c89\u1c8a",
]

SPACES = [" ", "  ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u180e", "\u2000", "\u2003",
          "\u200a", "\u200b", "\u200c", "\u200d", "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff", "\x00",
          "\x7f", "\xad"]

CONTRACTIONS = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'ve", "'VE", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D", "'ſ",
                "'\u017f", "’s", "’S", "'\u212a", "''s", "'", "'x", "'sit", "'Tis", "'llama", "'d'd", "'ß", "'\ufb06"]

EMOJI = ["🙂", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣", "❤️", "❤", "🫨", "👨🏿‍🚀", "\u200d", "\ufe0f", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "⌚", "©️"]

CODE = ["if (a<=b&&c!=d){return x->y[0];}", "\tdef f(x):\n\t\treturn x**2 # sq\n", "<html>\r\n  <body class=\"a-b\">\r\n",
        "SELECT * FROM t WHERE a='b''s';--", "std::cout<<\"\\n\"<<std::endl;", "x = {'a': [1, 2.5e-10, 0xFF]}", "a_b__c.d-e/f\\g",
        "C:\\Users\\x\\y.txt", "https://example.org/a?b=c&d=%20#e", "user@example.org", "#include <vector>\n\n\n#define X(a) a##b\n",
        "    \n        if True:\n            pass\n    \n", "$$\\sum_{i=0}^{n} x_i$$", "`code` **bold** __x__ ~~s~~", "|a|b|\n|-|-|\n"]


def forms():
    words = ["é", "Å", "ñ", "ệ", "각", "힣", "한국어", "क़", "ö̲", "q̣̇", "ậ", "Ǖ", "ཱི", "שּׁ", "が", "ﬀ", "①", "Ⅷ", "㍿", "ẛ̣", "\u0344", "\u0958",
             "\u2126", "\u212b", "\ufb1d", "\U0001d15e", "\u0340\u0341", "a\u0323\u0307", "a\u0307\u0323", "\u0301a", "e\u0301\u0301",
             "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0dd9\u0dcf", "\u09c7\u09be"]
    for word in words:
        for form in ["NFC", "NFD", "NFKC", "NFKD"]:
            yield unicodedata.normalize(form, word)
            yield "x " + unicodedata.normalize(form, word) + "1 " + unicodedata.normalize(form, word).upper()


def random_code_point(rng):
    kind = rng.random()
    if kind < 0.35:
        return chr(rng.randrange(0x20, 0x7F))
    if kind < 0.5:
        return chr(rng.randrange(0x80, 0x600))
    if kind < 0.75:
        return chr(rng.choice([rng.randrange(0x600, 0xD800), rng.randrange(0xE000, 0x10000)]))
    if kind < 0.9:
        return chr(rng.randrange(0x10000, 0x20000))
    return chr(rng.randrange(0x20000, 0x110000))


def mixtures(rng):
    """Pieces of everything, glued together."""
    pools = [SCRIPTS, SPACES, CONTRACTIONS, EMOJI, CODE, SPECIALS, ["a", "I", "it", "we", "THE", "the", "can"],
             ["0", "1", "12", "123", "1234", "12345678901", "3.14", "1,000"], [".", ",", "!!", "...", "?!", "--", "—", "(", ")[", "#"],
             SPACES, [" ", " ", "\n", "  ", "\n\n", " \n "]]
    for _ in range(1100):
        yield "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(2, 12)))
    for _ in range(350):
        yield "".join(rng.choice(SPACES + [" ", "\n", "\r\n", "a", "1", "."]) for _ in range(rng.randrange(1, 20)))
    for _ in range(350):
        yield "".join(random_code_point(rng) for _ in range(rng.randrange(1, 25)))
    for _ in range(150):
        word = rng.choice(["it", "IT", "I", "you", "O", "été", "我", "", "1", " ", "we "])
        yield word + rng.choice(CONTRACTIONS) + rng.choice(["", " ", "x", "X", "'", "\n", "é", "1"]) + rng.choice(CONTRACTIONS)
    for _ in range(200):
        special = rng.choice(SPECIALS)
        cut = rng.randrange(len(special) + 1)
        yield rng.choice([special[:cut] + rng.choice(SPECIALS), special[:cut], special + special[cut:],
                          " " + special + " \n" + special[:cut] + "  ", "a" + special + "b", special.upper() + special,
                          special[:cut] + " " + special[cut:], "é" + special + "é " + rng.choice(SPACES) + special + "_"])


def awkward_strings():
    rng = random.Random(7)
    strings = ["", " ", "a", "\n", "Hello, world!", "The mason's wall isn't there, WE'LL SEE.", *SPECIALS[:8]]
    strings += SCRIPTS + SPACES + CONTRACTIONS + EMOJI + CODE + SPECIALS
    strings += [s * 3 for s in SPACES] + ["a" + s + "b" + s + s + "1" for s in SPACES]
    strings += ["it" + c for c in CONTRACTIONS] + [c + " x" for c in CONTRACTIONS] + [" " + s for s in SCRIPTS]
    strings += [s + "1" + s for s in SCRIPTS] + ["".join(EMOJI), " ".join(EMOJI), *TRAINING_TEXT]
    strings += ["1" * n for n in range(1, 12)] + [" " * n for n in range(1, 18)] + ["\n" * n for n in range(1, 8)]
    strings += ["\r\n" * n + " " * n + "x" for n in range(1, 8)] + ["contraption", " contraption", "   x", "1234", "éclair"]
    strings += list(forms())
    strings += list(mixtures(rng))
    # Long runs: one piece, many merges.
    for unit in ["a", " ", "\n", "ab", "the ", "1", "é", "你", "🙂", "e\u0301", "'s", "<", "<|", " \n", "stone", "\u0301\u0323", "\x00"]:
        strings.append(unit * 1500)
    strings.append("a" * 20000)
    strings.append(" " * 20000 + "x")
    seen = set()
    return [s for s in strings if not (s in seen or seen.add(s))]
