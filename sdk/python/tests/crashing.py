"""A worker that kills itself once after each durable operation of its handler. Run by `test_faults`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from selvedge import Client, Context, Worker

FOLDER = Path(os.environ["CRASHES"])
STEPS = 4

worker = Worker(Client(), lanes=[os.environ["LANE"]])


def crash_once(name: str) -> None:
    """Kills this process, unless an earlier one died at the same place."""
    try:
        (FOLDER / f"crash-{name}").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def effect(name: str) -> str:
    with (FOLDER / "effects").open("a") as effects:
        effects.write(f"{name}\n")
    return name


@worker.task("child")
async def child(ctx: Context, number: int) -> int:
    crash_once("child")
    return number


@worker.task("crashing")
async def crashing(ctx: Context) -> list[str]:
    done = []
    for number in range(STEPS):
        done.append(await ctx.step(f"step-{number}", effect, f"step-{number}"))
        crash_once(f"step-{number}")
    await ctx.sleep("nap", 0.02)
    crash_once("sleep")
    await ctx.spawn(child, 5, name="child", lane=os.environ["LANE"])
    crash_once("spawn")
    children = await ctx.join()
    crash_once("join")
    done.append(str(children["child"].result))
    return done
