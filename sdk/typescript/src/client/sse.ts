// Server-sent events: the parser of the wire format.

/** One message of an event stream. */
export interface Message {
  id: string | undefined;
  event: string;
  data: string;
}

/** Returns the messages of a stream. Calls `onData` for every piece of it, comments included. */
export async function* messages(body: ReadableStream<Uint8Array>, onData: () => void): AsyncGenerator<Message> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onData();
      rest += decoder.decode(value, { stream: true });
      const blocks = rest.split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const message = parse(block);
        if (message) yield message;
      }
    }
  } finally {
    // The stream may already be aborted, which is no error here.
    await reader.cancel().catch(() => undefined);
  }
}

/** Parses the lines of one message. Returns undefined for a comment. */
function parse(block: string): Message | undefined {
  const message: Message = { id: undefined, event: "message", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "id") message.id = value;
    if (name === "event") message.event = value;
    if (name === "data") data.push(value);
  }
  message.data = data.join("\n");
  return data.length > 0 ? message : undefined;
}
