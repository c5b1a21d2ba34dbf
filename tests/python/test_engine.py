# SPDX-License-Identifier: Apache-2.0
"""The Python package against the program and against itself, over the bundled models."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import unittest

import ashlar
from ashlar import SamplingParams
from shared import ENDLESS, EQUATION, MODELS, QUESTION, SHORT, STORY, close_engines, engines, idle, open_engines

PROGRAM = os.environ["ASHLAR_PROGRAM"]


def setUpModule():
    open_engines("plain", "drafted", "blocks")


def tearDownModule():
    close_engines()


def program_answers(model, *flags):
    run = subprocess.run(
        [PROGRAM, "run", MODELS / model, "--json", "-q", "--max-context", "2048", "--no-self-test", *flags],
        check=True, capture_output=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


class Answers(unittest.TestCase):
    def test_are_those_of_the_program(self):
        for name, model in [("drafted", "pebble-11m"), ("blocks", "pebble-11m-sdar")]:
            with self.subTest(model=model):
                [theirs] = program_answers(
                    model, "-n", "40", "--prompt", QUESTION[0]["content"], "--temperature", "0.8", "--seed", "7")
                ours = engines[name].generate(QUESTION, SamplingParams(max_tokens=40, temperature=0.8, seed=7))
                self.assertEqual(ours.token_ids, theirs["tokens"])
                self.assertEqual(ours.text, theirs["text"])
                self.assertEqual(ours.finish_reason, theirs["finish"])

    def test_of_texts_are_those_of_the_program(self):
        [theirs] = program_answers("pebble-11m", "-n", "30", "--raw", "--prompt", STORY)
        self.assertEqual(engines["plain"].generate(STORY, SamplingParams(max_tokens=30)).token_ids, theirs["tokens"])

    def test_drafts_change_nothing_but_the_forwards(self):
        for params in (SHORT, SamplingParams(max_tokens=40, temperature=0.7, top_p=0.9, seed=3)):
            plain = engines["plain"].generate(EQUATION, params)
            drafted = engines["drafted"].generate(EQUATION, params)
            self.assertEqual(drafted.token_ids, plain.token_ids)
            self.assertEqual(plain.metrics.tokens_per_forward, 1.0)
            self.assertGreater(drafted.metrics.tokens_per_forward, 1.2)
            self.assertLess(drafted.metrics.forwards, plain.metrics.forwards)
            self.assertGreater(drafted.metrics.accepted, 0)
        slow = engines["drafted"].generate(EQUATION, SamplingParams(max_tokens=40, width=1))
        self.assertEqual(slow.metrics.tokens_per_forward, 1.0)

    def test_of_a_batch_are_those_of_each_alone(self):
        prompts = [STORY, QUESTION, engines["plain"].encode(EQUATION), "The"]
        params = [SamplingParams(max_tokens=20 + i, temperature=0.5, seed=i) for i in range(4)]
        for name, engine in engines.items():
            with self.subTest(engine=name):
                together = engine.generate(prompts, params)
                alone = [engine.generate(prompt, one) for prompt, one in zip(prompts, params)]
                self.assertEqual([a.token_ids for a in together], [a.token_ids for a in alone])
                self.assertEqual([a.text for a in together], [a.text for a in alone])

    def test_of_more_prompts_than_the_engine_takes_at_once(self):
        answers = engines["plain"].generate([[i + 5, 9] for i in range(600)], SamplingParams(max_tokens=1))
        self.assertEqual({len(a.token_ids) for a in answers}, {1})
        self.assertEqual(len(answers), 600)
        self.assertEqual(engines["plain"].generate([]), [])

    def test_of_blocks_have_their_figures(self):
        answer = engines["blocks"].generate(EQUATION, SHORT)
        figures = answer.metrics
        self.assertGreater(figures.tokens_per_forward, 1.2)
        self.assertEqual(len(figures.accept_lengths), figures.forwards)
        self.assertAlmostEqual(sum(figures.accept_lengths) / figures.forwards, figures.tokens_per_forward)
        self.assertEqual(len(answer.unmask_pass), len(answer.token_ids))
        self.assertGreater(max(answer.unmask_pass), 0)
        self.assertEqual(answer.settled_in, answer.unmask_pass)  # its name in the version before
        self.assertEqual(figures.prompt_tokens, len(engines["blocks"].encode(EQUATION)))
        self.assertIsNone(engines["plain"].generate(EQUATION, SHORT).unmask_pass)

    def test_have_log_probabilities(self):
        answer = engines["drafted"].generate(QUESTION, SamplingParams(max_tokens=8, logprobs=3))
        self.assertEqual([one.token_id for one in answer.logprobs], answer.token_ids)
        for one in answer.logprobs:  # greedy: the token is the likeliest
            self.assertEqual(len(one.top), 3)
            self.assertEqual(one.top[0][0], one.token_id)
            self.assertAlmostEqual(one.top[0][1], one.logprob)
            self.assertLessEqual(one.logprob, 0)
        self.assertIsNone(engines["drafted"].generate(QUESTION, SHORT).logprobs)

    def test_end_where_they_should(self):
        whole = engines["drafted"].generate(QUESTION, SHORT)
        word = whole.text.split()[4]
        cut = engines["drafted"].generate(QUESTION, SamplingParams(max_tokens=40, stop=["never this", word]))
        self.assertEqual(cut.text, whole.text[: whole.text.index(word)])
        self.assertEqual((cut.finish_reason, cut.stop_string), ("stop", word))
        token = whole.token_ids[5]
        short = engines["drafted"].generate(QUESTION, SamplingParams(max_tokens=40, stop_token_ids=[token]))
        self.assertEqual(short.token_ids, whole.token_ids[: whole.token_ids.index(token) + 1])
        self.assertEqual(engines["plain"].generate(STORY, SamplingParams(max_tokens=3)).finish_reason, "length")

    def test_obey_constraints(self):
        for name in ("drafted", "blocks"):
            with self.subTest(engine=name):
                choice = engines[name].generate(QUESTION, SamplingParams(max_tokens=20, choice=["a boat", "a ship"]))
                self.assertIn(choice.text, ["a boat", "a ship"])
                number = engines[name].generate([QUESTION], SamplingParams(max_tokens=20, regex="[0-9]{3}"))[0]
                self.assertRegex(number.text, "^[0-9]{3}$")
        schema = {"type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"],
                  "additionalProperties": False}
        answer = engines["drafted"].generate(QUESTION, SamplingParams(max_tokens=40, json_schema=schema))
        self.assertIsInstance(json.loads(answer.text)["n"], bool)

    def test_text_and_tokens_go_back_and_forth(self):
        engine = engines["plain"]
        self.assertEqual(engine.decode(engine.encode("Grüße, 世界")), "Grüße, 世界")
        self.assertEqual(engine.decode(engine.encode("a\udc80b")), "a\ufffd\ufffd\ufffdb")

    def test_tokens_that_do_not_exist_are_no_text(self):
        for ids in [[-1], [83, engines["plain"].vocab_size], [2**31 - 1]]:
            with self.subTest(ids=ids), self.assertRaisesRegex(ashlar.Error, "outside the vocabulary"):
                engines["plain"].decode(ids)

    def test_text_parts_of_messages_are_joined(self):
        engine = engines["plain"]
        parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "a harbour?"}]
        self.assertEqual(engine.encode([{"role": "user", "content": parts}]),
                         engine.encode([{"role": "user", "content": "What is a harbour?"}]))
        with self.assertRaisesRegex(ashlar.Error, r"messages\[0\].content is 5"):
            engine.encode([{"role": "user", "content": 5}])

    def test_halves_of_characters_are_read_alike_in_texts_and_in_messages(self):
        engine = engines["plain"]
        for given, read in [("a\udc80b", "a\ufffd\ufffd\ufffdb"), ("\ud83d", "\ufffd" * 3),
                            ("a\ud83d\ude00b", "a\U0001f600b"), ("\ude00\ud83d", "\ufffd" * 6)]:
            with self.subTest(given=ascii(given)):
                self.assertEqual(engine.decode(engine.encode(given)), read)
                of = [engine.encode([{"role": "user", "content": text}]) for text in (given, read)]
                self.assertEqual(*of)
                tools = [[{"type": "function", "function": {"name": "f", "description": text}}]
                         for text in (given, read)]
                of = [engine.encode(QUESTION, tools=one) for one in tools]
                self.assertEqual(*of)


class Streams(unittest.TestCase):
    def check_stream(self, chunks, stream, body):
        self.assertEqual("".join(c.text for c in chunks), body.text)
        self.assertEqual([t for c in chunks for t in c.token_ids], body.token_ids)
        self.assertEqual([c.finish_reason for c in chunks[:-1]], [None] * (len(chunks) - 1))
        self.assertEqual(chunks[-1].finish_reason, body.finish_reason)
        self.assertEqual(chunks[-1].metrics.generated_tokens, body.metrics.generated_tokens)
        self.assertEqual(stream.completion.token_ids, body.token_ids)
        self.assertGreater(len(chunks), 3)

    def test_are_the_body_in_pieces(self):
        async def collect(engine, prompt, params):
            stream = engine.stream(prompt, params)
            return [chunk async for chunk in stream], stream

        for name, engine in engines.items():
            for params in (SHORT, SamplingParams(max_tokens=40, logprobs=0, stop="zzz", temperature=0.6)):
                with self.subTest(engine=name, params=params):
                    body = engine.generate(QUESTION, params)
                    self.check_stream(*asyncio.run(collect(engine, QUESTION, params)), body)
                    stream = engine.stream(QUESTION, params)
                    self.check_stream(list(stream), stream, body)
                    pieces = []
                    engine.generate(QUESTION, params, on_chunk=pieces.append)
                    self.assertEqual("".join(c.text for c in pieces), body.text)

    def test_run_together_in_one_event_loop(self):
        async def one(engine, i):
            text = ""
            async for chunk in engine.stream(QUESTION, SamplingParams(max_tokens=24, temperature=1.0, seed=i)):
                text += chunk.text
            return text

        async def all_of_them():
            return await asyncio.gather(*(one(engines["drafted"], i) for i in range(12)))

        texts = asyncio.run(all_of_them())
        for i in (0, 5, 11):
            alone = engines["drafted"].generate(QUESTION, SamplingParams(max_tokens=24, temperature=1.0, seed=i))
            self.assertEqual(texts[i], alone.text)

    def test_that_are_left_are_cancelled(self):
        async def leave_by_break():
            async for _ in engines["drafted"].stream(STORY, ENDLESS):
                break

        async def leave_by_timeout():
            async def read():
                async for _ in engines["drafted"].stream(STORY, ENDLESS):
                    await asyncio.sleep(0.01)
            await asyncio.wait_for(read(), 0.05)

        def leave_by_closing():
            with engines["drafted"].stream(STORY, ENDLESS) as stream:
                next(stream)
            self.assertEqual(list(stream), [])

        async def closed_by_another_task():
            stream = engines["drafted"].stream(STORY, ENDLESS)
            chunks = []
            async for chunk in stream:
                if not chunks:
                    asyncio.get_running_loop().call_later(0.02, stream.close)
                chunks.append(chunk)
            return chunks

        before = engines["drafted"].counters()["requests_cancelled"]
        asyncio.run(leave_by_break())
        self.assertIsNone(asyncio.run(closed_by_another_task())[-1].finish_reason)
        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(leave_by_timeout())
        leave_by_closing()
        self.assertEqual(idle(engines["drafted"]), 0)
        self.assertGreater(engines["drafted"].counters()["requests_cancelled"], before)  # 4, unless the machine is slow

    def test_whose_event_loop_is_closed_harm_no_one(self):
        streams = [engines["blocks"].stream(STORY, ENDLESS)]
        loop = asyncio.new_event_loop()
        loop.run_until_complete(streams[0].__anext__())
        loop.close()
        body = engines["blocks"].generate(QUESTION, SHORT)
        self.assertEqual(body.finish_reason, engines["blocks"].generate(QUESTION, SHORT).finish_reason)
        streams.clear()
        self.assertEqual(idle(engines["blocks"]), 0)


class Mishaps(unittest.TestCase):
    def test_an_exception_of_a_consumer_comes_out_and_cancels(self):
        class Mine(Exception):
            pass

        def consumer(chunk):
            raise Mine(chunk.index)

        async def reader():
            async for _ in engines["plain"].stream(STORY, ENDLESS):
                raise Mine

        before = engines["plain"].counters()["requests_cancelled"]
        with self.assertRaises(Mine):
            engines["plain"].generate([STORY, QUESTION], ENDLESS, on_chunk=consumer)
        with self.assertRaises(Mine):
            asyncio.run(reader())
        self.assertEqual(idle(engines["plain"]), 0)
        self.assertGreater(engines["plain"].counters()["requests_cancelled"], before)
        self.assertEqual(engines["plain"].generate(STORY, SHORT).finish_reason,
                         engines["drafted"].generate(STORY, SHORT).finish_reason)

    def test_control_c_ends_generate(self):
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            engines["plain"].generate([STORY] * 40, ENDLESS)
        timer.join()
        self.assertEqual(idle(engines["plain"]), 0)

    def test_threads_share_an_engine(self):
        prompts = [STORY, QUESTION, EQUATION, "The"]
        expected = [engines["plain"].generate(p, SHORT).token_ids for p in prompts]
        found = {}

        def work(i):
            found[i] = engines["drafted"].generate(prompts[i % 4], SHORT).token_ids

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([found[i] for i in range(8)], expected * 2)

    def test_a_closed_engine_says_so_and_lets_streams_end(self):
        engine = ashlar.Engine(MODELS / "pebble-11m", "none", max_context=256, max_sequences=2)
        stream = engine.stream(STORY, SHORT)
        engine.close()
        engine.close()
        self.assertEqual(stream.__next__().index, 0)
        list(stream)
        self.assertEqual(stream.completion.token_ids, engines["plain"].generate(STORY, SHORT).token_ids)
        for call in (lambda: engine.generate(STORY), lambda: engine.counters(), lambda: engine.stream(STORY)):
            with self.assertRaisesRegex(ashlar.Error, "closed"):
                call()
        self.assertIn("closed", repr(engine))

    def test_a_program_may_end_in_the_middle(self):
        code = ("import ashlar, threading\n"
                f"engine = ashlar.Engine({str(MODELS / 'pebble-11m')!r}, max_context=1024)\n"
                "params = ashlar.SamplingParams(max_tokens=900, ignore_eos=True)\n"
                "stream = engine.stream('The', params)\n"
                "print(next(stream).index)\n"
                "for _ in range(3):\n"
                "    threading.Thread(target=lambda: engine.generate(['The'] * 40, params), daemon=True).start()\n")
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "0\n", ""))

    def test_bad_parameters_are_named(self):
        engine = engines["drafted"]
        for params, words in [
            (dict(temperature=-1.0), "temperature"),
            (dict(temperature=float("nan")), "temperature"),
            (dict(temperature="hot"), "temperature is 'hot'"),
            (dict(top_p=2), "top_p"),
            (dict(max_tokens=0), "max_tokens is 0"),
            (dict(max_tokens=2.5), "max_tokens is 2.5"),
            (dict(logprobs=1000), "logprobs is 1000"),
            (dict(width=-1), "width"),
            (dict(width=10_000), "width is 10000"),
            (dict(seed=-1), "seed is -1"),
            (dict(scheme="lucky"), "scheme is 'lucky'"),
            (dict(stop=7), "stop is 7"),
            (dict(stop_token_ids=[10**6]), "stop id"),
            (dict(logit_bias={10**6: 1.0}), "logit_bias"),
            (dict(logit_bias=[1]), "logit_bias"),
            (dict(algorithm="guess"), "guess|algorithm"),
            (dict(algorithm_options={"threshold": "high"}), "algorithm_options"),
            (dict(regex="("), "regex|parenthesis|group|pattern|expression"),
            (dict(regex="a", choice=["b"]), "only one"),
            (dict(json_schema="{"), "json"),
        ]:
            with self.subTest(params=params), self.assertRaisesRegex(ashlar.Error, words):
                engine.generate(STORY, SamplingParams(**params))
        for wrong in (5, "temperature", [5], {"warmth": 1}):
            with self.subTest(params=wrong), self.assertRaises(TypeError):
                engine.generate(STORY, wrong)
        with self.assertRaisesRegex(ashlar.Error, "2 prompts and 3"):
            engine.generate([STORY, STORY], [SHORT] * 3)

    def test_bad_prompts_are_named(self):
        engine = engines["drafted"]
        for prompt, words in [
            ([5, 10**6], "1000000"),
            ([5, -1], "-1"),
            (list(range(5, 3000)), "2995 tokens"),
            ([5, 2.5], "list of token ids"),
            ([{"role": "user", "content": 3}], "."),
            ([STORY, [7], [8] * 3000], "prompt 2: .* 3000 tokens"),
        ]:
            with self.subTest(prompt=str(prompt)[:40]), self.assertRaisesRegex(ashlar.Error, words):
                engine.generate(prompt)
        for prompt in (None, 5, b"bytes", {"role": "user"}, [None], [[]]):
            with self.subTest(prompt=prompt), self.assertRaises((TypeError, ashlar.Error)):
                engine.generate(prompt)
        self.assertEqual(idle(engine), 0)

    def test_bad_options_are_named(self):
        model = MODELS / "pebble-11m"
        for arguments, options, words in [
            (("/no/such/folder",), {}, "/no/such/folder"),
            ((model, "/no/such/drafter"), {}, "/no/such/drafter"),
            ((model,), dict(device="abacus"), "abacus"),
            ((model,), dict(threads=-1), "threads is -1"),
            ((model,), dict(threads="two"), "threads is 'two'"),
            ((model,), dict(isa="mmx"), "mmx"),
            ((model,), dict(kv_memory="lots"), "kv_memory is 'lots'"),
            ((model,), dict(kv_memory=10), "kv_memory is 10"),
            ((model,), dict(weights="int3"), "weights is 'int3'"),
            ((model,), dict(drafter_weights="int3"), "drafter_weights is 'int3'"),
            ((model, MODELS / "pebble-11m-dflash"), dict(device="ref", drafter_weights="int8"),
             "drafter-weights. the ref device"),
            ((model,), dict(kv_dtype="f8"), "kv_dtype is 'f8'"),
            ((model,), dict(width=1), "width is 1"),
            ((model,), dict(schedule="soon"), "schedule is 'soon'"),
            ((model,), dict(algorithm="low_confidence"), "autoregressive"),
            ((MODELS / "pebble-11m-sdar",), dict(algorithm="guess"), "guess"),
            ((MODELS / "pebble-11m-sdar",), dict(algorithm_options={"threshold": 7}), "threshold"),
        ]:
            with self.subTest(options=options), self.assertRaisesRegex(ashlar.Error, words):
                ashlar.Engine(*arguments, **options)
        for wrong in (dict(speed="full"), dict(n_ctx=64, max_model_len=64), dict(model_path="elsewhere")):
            with self.subTest(options=wrong), self.assertRaises(TypeError):
                ashlar.Engine(model, **wrong)
        with self.assertRaisesRegex(TypeError, "did you mean 'max_context'"):
            ashlar.Engine(model, max_contxt=64)

    def test_block_options_matter(self):
        with ashlar.Engine(MODELS / "pebble-11m-sdar", algorithm="low_confidence", max_context=256,
                           algorithm_options={"threshold": 1.0}) as engine:
            careful = engine.generate(EQUATION, SHORT).metrics
        usual = engines["blocks"].generate(EQUATION, SHORT).metrics
        self.assertLess(careful.tokens_per_forward, usual.tokens_per_forward)
        by_request = SamplingParams(max_tokens=40, algorithm="low_confidence", algorithm_options={"threshold": 1.0})
        self.assertEqual(engines["blocks"].generate(EQUATION, by_request).metrics.lengths, careful.lengths)


if __name__ == "__main__":
    unittest.main()
