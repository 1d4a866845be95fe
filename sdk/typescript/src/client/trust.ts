// A `fetch` that trusts the certificates of a file, for a server with a certificate of its own. The `fetch` of Node reads
// such a file only when the process starts (NODE_EXTRA_CA_CERTS).
//
// The source of this function also runs in the thread of the heartbeats: it may use nothing from outside itself.

/** Loads a module of Node. */
export type Load = (name: string) => unknown;

/** Returns a `fetch` for `https:` that trusts only the certificates in this PEM file. */
export function trustingFetch(caFile: string, load: Load): typeof fetch {
  type Https = typeof import("node:https");
  let agent: Promise<{ https: Https; agent: import("node:https").Agent }> | undefined;

  async function open(): Promise<{ https: Https; agent: import("node:https").Agent }> {
    const { readFile } = (await load("node:fs/promises")) as typeof import("node:fs/promises");
    const https = (await load("node:https")) as Https;
    return { https, agent: new https.Agent({ ca: await readFile(caFile), keepAlive: true }) };
  }

  return async (input, init = {}) => {
    const url = input as string;
    if (!url.startsWith("https:")) return fetch(url, init);
    agent ??= open();
    const opened = await agent;
    const { Readable } = (await load("node:stream")) as typeof import("node:stream");
    const signal = init.signal ?? undefined;
    return new Promise<Response>((resolve, reject) => {
      const { method, headers, body } = init as { method?: string; headers?: Record<string, string>; body?: string };
      const request = opened.https.request(url, { method, headers, agent: opened.agent, signal });
      request.on("response", (message) => {
        const status = message.statusCode ?? 500;
        const hasBody = status !== 204 && status !== 304;
        const content = hasBody ? (Readable.toWeb(message) as ReadableStream<Uint8Array>) : null;
        resolve(new Response(content, { status, headers: message.headers as Record<string, string> }));
      });
      request.on("error", (error) => reject(signal?.aborted ? (signal.reason as Error) : error));
      request.end(body);
    });
  };
}
