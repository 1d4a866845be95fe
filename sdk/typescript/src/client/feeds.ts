// Feeds that resume by themselves: events of the log and frames of an execution, as async iterators.

import { pause } from "../duration.js";
import { fromWire } from "../fields.js";
import type * as api from "../types.js";
import type { Message } from "./sse.js";
import { backoff, isTemporary, type Query, type Transport } from "./transport.js";

/** The selection of a subscription. All filters must match. */
export interface EventsOptions {
  /** Continues after this cursor: the `cursor` of the last event that was handled. */
  after?: string | null;
  /** The start without `after`: `now` (default), `beginning`, or a time. */
  start?: Date | "now" | "beginning";
  /** Event types, such as `execution.completed`. Default: all. */
  types?: readonly string[];
  execution?: string;
  flow?: string;
  /** A tag, as `name:value`. */
  tag?: string;
  /** Ends the iteration with the reason of the signal. */
  signal?: AbortSignal;
}

/** The selection of frames. */
export interface FramesOptions {
  /** The attempt. Default: the latest. */
  attempt?: number;
  /** Continues after the frame of this number. */
  after?: number;
  /** `durable` leaves best-effort frames out. */
  mode?: "durable";
}

/** Yields events, live and without a gap: after a lost connection it continues where it was. */
export async function* events(transport: Transport, options: EventsOptions): AsyncGenerator<api.Event> {
  const { signal, types, start = "now", after, execution, flow, tag } = options;
  const selection: Query = { types, execution, flow, tag };
  let position: Query = after ? { after } : { from: start instanceof Date ? start.toISOString() : start };
  if (!after && start === "now") position = await endOfLog(transport, signal);
  const open = () => transport.stream("/v1/events", { ...selection, ...position }, signal);
  for await (const message of resumed(open, signal)) {
    const event = fromWire<api.Event>(JSON.parse(message.data));
    position = { after: event.cursor };
    yield event;
  }
}

/** Returns the end of the log. A feed that starts there cannot miss an event while it connects. */
async function endOfLog(transport: Transport, signal?: AbortSignal): Promise<Query> {
  const query = { from: "now", limit: 1 };
  const page = await transport.get<api.ListEventsAnswer>("/v1/events", query, { signal });
  return page.resumeCursor === null ? { from: "beginning" } : { after: page.resumeCursor };
}

/** Yields the frames of an attempt as they are written. Ends with the attempt. */
export async function* tail(
  transport: Transport,
  execution: string,
  options: FramesOptions & { signal?: AbortSignal },
): AsyncGenerator<api.Frame> {
  const { signal, attempt, mode } = options;
  let after = options.after;
  const path = `/v1/executions/${encodeURIComponent(execution)}/stream/tail`;
  const open = () => transport.stream(path, { attempt, mode, after }, signal);
  for await (const message of resumed(open, signal)) {
    if (message.event === "closed") return;
    const frame = fromWire<api.Frame>(JSON.parse(message.data));
    after = frame.number;
    yield frame;
  }
}

/** Yields the messages of a stream that is opened again whenever it ends or breaks. */
async function* resumed(open: () => AsyncGenerator<Message>, signal?: AbortSignal): AsyncGenerator<Message> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      for await (const message of open()) {
        attempt = 0;
        yield message;
      }
    } catch (error) {
      if (signal?.aborted || !isTemporary(error)) throw error;
    }
    await pause(backoff(attempt), signal);
  }
}
