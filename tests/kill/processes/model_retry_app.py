"""An application that asks a model, with a declared retry policy. The provider is in the environment.

holdfast worker model_retry_app.py
"""

from __future__ import annotations

import asyncio
import os

import openai

import holdfast as hf

app = hf.App()
bare = openai.AsyncOpenAI(base_url=os.environ["PROVIDER"], api_key="key")

CLIENTS = {
    "patient": hf.wrap(bare, retry=hf.Retry(attempts=4, initial="3s", maximum="3s", jitter=0)),
    "quick": hf.wrap(bare, retry=hf.Retry(attempts=3, initial=0.01, maximum=0.01)),
    "never": hf.wrap(bare, retry=hf.Retry(attempts=3, initial=0.01, never=(openai.RateLimitError,))),
    "on": hf.wrap(bare, retry=hf.Retry(attempts=3, initial=0.01, on=(openai.BadRequestError,))),
    "timed": hf.wrap(bare, timeout="3s", retry=hf.Retry(attempts=2, initial=0.01)),
    "own": hf.wrap(bare, retry=hf.Retry(attempts=2, initial=0.01)).with_options(max_retries=4),
}


@app.tool(effect="idempotent", timeout="1m")
async def post(item: str) -> str:
    raise ConnectionError(f"no way to {item}")


@app.tool(effect="read_only")
async def slow(item: str) -> str:
    await asyncio.get_running_loop().create_future()
    return item


@app.agent
async def asks(client: str, question: str) -> str:
    try:
        completion = await CLIENTS[client].chat.completions.create(
            model="gpt-local", messages=[{"role": "user", "content": question}]
        )
    except openai.APIError as error:
        return type(error).__name__
    return str(completion.choices[0].message.content)


@app.agent
async def posts(item: str) -> str:
    return await post(item)


@app.agent
async def reads(item: str) -> str:
    try:
        return await slow(item)
    except TimeoutError:
        return "too slow"
