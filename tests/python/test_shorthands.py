# SPDX-License-Identifier: Apache-2.0
"""Other names, forms and weights for what the package's own tests say at length: tokens have to be the same."""

import asyncio
import unittest
import unittest.mock

import ashlar
from ashlar import SamplingParams
from ashlar.words import in_python
from shared import ENDLESS, EQUATION, MODELS, QUESTION, SHORT, STORY, close_engines, engines, idle, open_engines


def setUpModule():
    open_engines("plain", "drafted")


def tearDownModule():
    close_engines()


class Shorthands(unittest.TestCase):
    def test_weights_of_the_drafter_change_no_token(self):
        plain = engines["plain"].generate(EQUATION, SHORT)
        for weights in ("exact", "int4"):
            with ashlar.Engine(MODELS / "pebble-11m", max_context=256, width=8, drafter_weights=weights) as engine:
                answer = engine.generate(EQUATION, SHORT)
            self.assertEqual(answer.token_ids, plain.token_ids)
            self.assertGreater(answer.metrics.accepted, 0)

    def test_of_parameters_mean_the_same(self):
        engine = engines["drafted"]
        params = SamplingParams(max_tokens=12, temperature=0.9, repetition_penalty=1.2, seed=4)
        whole = engine.generate(QUESTION, params).token_ids
        given = dict(max_tokens=12, temperature=0.9, repetition_penalty=1.2, seed=4)
        for name, answer in {
            "keywords": engine.generate(QUESTION, **given),
            "dict": engine.generate(QUESTION, given),
            "other names": engine.generate(QUESTION, dict(max_new_tokens=12, temp=0.9, repeat_penalty=1.2, seed=4, top_k=-1)),
            "keywords over others": engine.generate(QUESTION, SamplingParams(max_tokens=5, seed=4), **{**given}),
            "vLLM": engine.generate(QUESTION, sampling_params=params).outputs[0],
            "one each": engine.generate([QUESTION], [given])[0],
            "one each, made as they are asked for": engine.generate([QUESTION], (one for one in [given]))[0],
            "chat": engine.chat(QUESTION[0]["content"], params),
            "chat, several": engine.chat([QUESTION, EQUATION], params)[0],
            "stream": [engine.stream(QUESTION, **given)][0],
        }.items():
            with self.subTest(name):
                tokens = [t for chunk in answer for t in chunk.token_ids] if name == "stream" else answer.token_ids
                self.assertEqual(tokens, whole)
        self.assertNotEqual(engine.generate(QUESTION, params, seed=5).token_ids, whole)
        with self.assertRaisesRegex(TypeError, "did you mean 'max_tokens'"):
            engine.generate(QUESTION, max_token=5)
        with self.assertRaisesRegex(TypeError, "given twice"):
            engine.generate(QUESTION, max_tokens=5, max_new_tokens=5)
        for wrong in (5, [], [5], ["a text"], None):
            with self.subTest(conversation=wrong), self.assertRaises(TypeError):
                engine.chat(wrong)

    def test_of_options_mean_the_same(self):
        with self.assertRaisesRegex(TypeError, "'max_context' is given twice"):
            ashlar.Engine(MODELS / "pebble-11m", max_context=64, n_ctx=32)
        with ashlar.LLM(model_path=MODELS / "pebble-11m", drafter="none", n_ctx=64, max_num_seqs=2) as engine:
            self.assertEqual(engine.max_positions, 64)

    def test_options_that_have_no_counterpart_are_answered(self):
        for option, words in {"tensor_parallel_size": "one device", "n_gpu_layers": "device='cuda'", "gpu_memory_utilization": "kv_memory",
                              "speculative_config": "drafter=FOLDER", "kv_dtyp": "did you mean 'kv_dtype'"}.items():
            with self.subTest(option), self.assertRaisesRegex(TypeError, f"there is no option {option!r}; .*{words}"):
                ashlar.Engine(MODELS / "pebble-11m", **{option: 2})
        self.assertEqual(f"{ashlar.Error.__module__}.{ashlar.Error.__qualname__}", "ashlar.Error")

    def test_answers_can_be_awaited(self):
        engine = engines["drafted"]

        async def several():
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    await asyncio.sleep(0)
                    ticks += 1

            ticker = asyncio.create_task(tick())
            both = await asyncio.gather(engine.agenerate(QUESTION, SHORT), engine.agenerate([EQUATION, STORY], SHORT))
            one = await engine.achat(QUESTION[0]["content"], SHORT)
            ticker.cancel()
            return both, one, ticks

        (first, rest), chat, ticks = asyncio.run(several())
        self.assertEqual([first.token_ids, chat.token_ids], [engine.generate(QUESTION, SHORT).token_ids] * 2)
        self.assertEqual([a.token_ids for a in rest], [a.token_ids for a in engine.generate([EQUATION, STORY], SHORT)])
        self.assertGreater(ticks, 0)  # the loop went on meanwhile

    def test_cancelling_the_task_cancels_the_answer(self):
        engine = engines["plain"]
        before = engine.counters()["requests_cancelled"]

        async def impatient():
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(engine.agenerate(STORY, ENDLESS), 0.2)

        asyncio.run(impatient())
        self.assertEqual(idle(engine), 0)
        self.assertEqual(engine.counters()["requests_cancelled"], before + 1)

    def test_errors_speak_of_what_there_is_in_python(self):
        with self.assertRaisesRegex(ashlar.Error, r"\(max_context\).*\(block_size\)"):
            ashlar.Engine(MODELS / "pebble-11m-sdar", max_context=7)
        names = ["drafter", "max_context", "kv_memory", "weights", "passes"]
        for before, after in [("--weights fp8", "weights='fp8'"), ("--weights int8", "weights='int8'"), ("--weights auto", "weights='auto'"),
                              ("--max-context 4096", "max_context=4096"), ("--passes changes nothing", "passes changes nothing")]:
            self.assertEqual(in_python(before, names), after)
        self.assertEqual(in_python("a smaller --kv-memory SIZE, or --drafter none: plain", names),
                         "a smaller kv_memory=SIZE, or drafter='none': plain")
        self.assertEqual(in_python("--port 80 is free", names), "--port 80 is free")
        with unittest.mock.patch("shutil.which", return_value=None):
            self.assertIn("hf download org/model", in_python("to fetch it: ashlar pull org/model", names))
        with unittest.mock.patch("shutil.which", return_value="/usr/bin/ashlar"):
            self.assertIn("ashlar pull org/model", in_python("to fetch it: ashlar pull org/model", names))


if __name__ == "__main__":
    unittest.main()
