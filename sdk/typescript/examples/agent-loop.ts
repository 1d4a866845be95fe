// Agent: a loop of thoughts and tools. Each thought and each tool is a durable step, so that a crash repeats nothing
// that was paid for.

import { type Client, Permanent, type Worker } from "selvedge";

interface Thought {
  tool: keyof typeof tools | "answer";
  input: string;
}

const tools = {
  search: async (query: string) => (query === "height of the tower" ? "330 m" : "nothing found"),
  convert: async (metres: string) => `${Math.round(Number.parseFloat(metres) * 3.28)} ft`,
};

/** Stands for a language model that chooses the next tool by what happened so far. */
async function think(question: string, history: string[]): Promise<Thought> {
  if (history.length === 0) return { tool: "search", input: question };
  if (history.length === 1) return { tool: "convert", input: history[0] ?? "" };
  return { tool: "answer", input: `${question}: ${history.at(-1)}` };
}

export function tasks(worker: Worker): void {
  // region: agent
  worker.task("agent", async (ctx, question: string) => {
    const history: string[] = [];
    for (let turn = 1; turn <= 10; turn += 1) {
      const { tool, input } = await ctx.step(`think ${turn}`, () => think(question, history));
      await ctx.progress(turn * 10, `${tool}: ${input}`);
      if (tool === "answer") return { answer: input, turns: turn };
      history.push(await ctx.step(`${tool} ${turn}`, () => tools[tool](input)));
    }
    throw new Permanent("no answer after ten turns");
  });
  // endregion: agent
}

export async function main(client: Client): Promise<unknown> {
  const run = await client.submit("agent", "height of the tower");
  return run.result({ timeoutMs: 60_000 });
}
