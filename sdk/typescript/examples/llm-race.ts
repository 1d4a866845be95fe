// Race of language models: three are asked, the first answer wins, the others are cancelled. Each streams its tokens.

import { setTimeout as pause } from "node:timers/promises";
import { type Client, Flow, type Worker } from "selvedge";

interface Question {
  model: string;
  prompt: string;
  tokenMs: number;
}

/** Stands for the streaming call of a model. Stops when the signal is aborted. */
async function* complete({ model, prompt, tokenMs }: Question, signal: AbortSignal): AsyncGenerator<string> {
  for (const token of [model, " says: ", prompt.toUpperCase(), "!"]) {
    await pause(tokenMs, undefined, { signal });
    yield token;
  }
}

export function tasks(worker: Worker): void {
  // region: frames
  worker.task("ask-model", async (ctx, question: Question) => {
    let answer = "";
    for await (const token of complete(question, ctx.signal)) {
      ctx.frame(token); // in order, without waiting for each
      answer += token;
    }
    return answer;
  });
  // endregion: frames
  worker.task("first-answer", (ctx) => ctx.upstream.winner());
}

export async function main(client: Client): Promise<unknown> {
  const flow = new Flow("llm-race");
  const models = [
    { model: "swift", prompt: "hello", tokenMs: 5 },
    { model: "steady", prompt: "hello", tokenMs: 60_000 },
    { model: "slow", prompt: "hello", tokenMs: 60_000 },
  ].map((question) => flow.add(question.model, "ask-model", question));
  flow.add("answer", "first-answer", null, { after: models, policy: "any_of" });
  const submitted = await client.submitFlow(flow);
  const ended = await submitted.result({ timeoutMs: 60_000 });
  let streamed = "";
  for await (const frame of submitted.node("swift").tail()) streamed += frame.data;
  const { completed, cancelled } = ended.flow.counts;
  return [ended.results.answer?.result, streamed, { completed, cancelled }];
}
