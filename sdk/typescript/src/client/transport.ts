// Calls to the server, repeated until they are answered.
//
// A call that gets no answer may have taken effect. It is repeated with the same id or `Idempotency-Key`, which makes
// the repetition safe. So are 429 and 503, after the time that the server names.

import { pause } from "../duration.js";
import { environment } from "../environment.js";
import { ConnectionFailed, Problem, type ProblemDocument, problemOf } from "../errors.js";
import { fromWire, snake, toWire } from "../fields.js";
import { randomId } from "../ids.js";
import { type Message, messages } from "./sse.js";
import { trustingFetch } from "./trust.js";

/** The settings of a client. */
export interface ClientOptions {
  /**
   * The address of the server, or several, separated by commas: where one cannot be reached, the next is tried. Default:
   * SELVEDGE_SERVER, or http://127.0.0.1:7878.
   */
  url?: string;
  /** The API key. Default: SELVEDGE_KEY, or none. */
  key?: string | null;
  /** The namespace, for a key of several namespaces. Default: SELVEDGE_NAMESPACE, or that of the key. */
  namespace?: string;
  /** The longest time to wait for an answer, in milliseconds, beyond the time that a call asks the server to wait. Default: 30 000. */
  timeoutMs?: number;
  /** The time for which a call is repeated without an answer, in milliseconds. Default: 30 000. */
  retryForMs?: number;
  /** A PEM file with the only certificates to trust. Default: SELVEDGE_CA_FILE, or those that Node trusts. */
  caFile?: string;
  /** Another implementation of `fetch`, for example one that uses a proxy. */
  fetch?: typeof fetch;
}

/** The parameters of a request. Undefined and null leave one out. */
export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

/** One request. */
export interface Call {
  query?: Query;
  body?: unknown;
  /** The body as JSON text, instead of `body`. */
  text?: string;
  headers?: Record<string, string>;
  /** The time for which the server may hold the request, in milliseconds. */
  waitMs?: number;
  /** The longest time to wait for an answer, beyond `waitMs`. Default: `timeoutMs` of the client. */
  timeoutMs?: number;
  /** The time for which the call is repeated. Default: `retryForMs` of the client. */
  retryForMs?: number;
  signal?: AbortSignal;
  /** Called before each repetition. */
  onRetry?: (failure: Error) => void;
}

const DEFAULT_URL = "http://127.0.0.1:7878";
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2_000;
/** The server sends a comment every 15 seconds, so a silent stream is a broken one. */
const SILENCE_LIMIT_MS = 60_000;

/** Sends requests, with retries. */
export class Transport {
  /** The addresses of the server. */
  readonly urls: readonly string[];
  /** The file with the certificates to trust. */
  readonly caFile: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** The `fetch` of the user, which another thread cannot use. */
  readonly ownFetch: typeof fetch | undefined;
  /** The `fetch` of all requests. */
  readonly fetch: typeof fetch;
  #current = 0;
  readonly #timeoutMs: number;
  readonly #retryForMs: number;

  constructor(options: ClientOptions) {
    const urls = options.url ?? environment("SELVEDGE_SERVER") ?? DEFAULT_URL;
    const given = urls.split(",").map((url) => url.trim().replace(/\/+$/, ""));
    this.urls = given.filter((url) => url !== "");
    const key = options.key ?? environment("SELVEDGE_KEY");
    const namespace = options.namespace ?? environment("SELVEDGE_NAMESPACE");
    this.headers = {
      ...(key ? { authorization: `Bearer ${key}` } : {}),
      ...(namespace ? { "selvedge-namespace": namespace } : {}),
    };
    this.ownFetch = options.fetch;
    this.caFile = options.caFile ?? environment("SELVEDGE_CA_FILE");
    const trusting = this.caFile === undefined ? undefined : trustingFetch(this.caFile, (name) => import(name));
    this.fetch = options.fetch ?? trusting ?? ((...request) => fetch(...request));
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#retryForMs = options.retryForMs ?? 30_000;
  }

  /** The address that is in use. */
  get url(): string {
    return this.urls[this.#current] as string;
  }

  /** Reads a document. */
  async get<T>(path: string, query?: Query, call: Call = {}): Promise<T> {
    return fromWire<T>(JSON.parse(await this.send("GET", path, { ...call, query })));
  }

  /** Changes something. The same key is sent with every repetition, so that it happens once. */
  async post<T>(path: string, body: unknown = {}, call: Call = {}): Promise<T> {
    const headers = { "idempotency-key": randomId(), ...call.headers };
    return fromWire<T>(JSON.parse(await this.send("POST", path, { ...call, body: toWire(body), headers })));
  }

  /** Sends a request that is safe to repeat by its nature, and returns the answer in camelCase. */
  async change<T>(method: "PUT" | "PATCH" | "DELETE", path: string, body?: unknown, query?: Query): Promise<T> {
    return fromWire<T>(JSON.parse(await this.send(method, path, { body: toWire(body), query })));
  }

  /** Sends a request until it is answered, and returns the text of the answer. Throws a `Problem` if it is refused. */
  async send(method: string, path: string, call: Call = {}): Promise<string> {
    const body = call.text ?? (call.body === undefined ? undefined : JSON.stringify(call.body));
    const until = Date.now() + (call.retryForMs ?? this.#retryForMs);
    for (let attempt = 0; ; attempt += 1) {
      let delay = backoff(attempt);
      let failure: Error;
      try {
        const [status, text] = await this.#once(method, path, body, call);
        if (status < 400) return text;
        const problem = readProblem(status, text);
        if (!isTemporary(problem)) throw problem;
        delay = problem.retryAfterMs ?? delay;
        failure = problem;
      } catch (error) {
        if (call.signal?.aborted) throw call.signal.reason;
        if (!(error instanceof ConnectionFailed) || isCertificateError(error)) throw error;
        failure = error;
        if (attempt + 1 < this.urls.length) delay = 0;
      }
      if (delay > 0 && Date.now() + delay > until) throw failure;
      call.onRetry?.(failure);
      await pause(delay, call.signal);
    }
  }

  /** Opens an event stream and returns its messages. Ends when the server ends it; throws when the connection breaks. */
  async *stream(path: string, query: Query, signal?: AbortSignal): AsyncGenerator<Message> {
    const limit = new Limit(SILENCE_LIMIT_MS, signal);
    const { url } = this;
    try {
      const headers = { ...this.headers, accept: "text/event-stream" };
      const response = await this.fetch(`${url}${path}${search(query)}`, { headers, signal: limit.signal });
      if (response.status >= 400) throw readProblem(response.status, await response.text());
      if (!response.body) throw new ConnectionFailed(`${url} answered an event stream without a body`);
      yield* messages(response.body, () => limit.restart());
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw error instanceof Problem ? error : this.#connectionFailed(url, error);
    } finally {
      limit.abort();
    }
  }

  async #once(method: string, path: string, body: string | undefined, call: Call): Promise<[number, string]> {
    const limit = new Limit((call.timeoutMs ?? this.#timeoutMs) + (call.waitMs ?? 0), call.signal);
    const headers: Record<string, string> = { ...this.headers, ...call.headers };
    if (body !== undefined) headers["content-type"] = "application/json";
    const { url } = this;
    try {
      const init = { method, headers, body, signal: limit.signal };
      const response = await this.fetch(`${url}${path}${search(call.query)}`, init);
      return [response.status, await response.text()];
    } catch (error) {
      throw call.signal?.aborted ? error : this.#connectionFailed(url, error);
    } finally {
      limit.end();
    }
  }

  /** Returns the error of an address that does not answer. The next one is in use from now on. */
  #connectionFailed(url: string, error: unknown): ConnectionFailed {
    if (url === this.url) this.#current = (this.#current + 1) % this.urls.length;
    if (error instanceof ConnectionFailed) return error;
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const reason = cause instanceof Error ? cause.message || cause.name : String(cause);
    const code = codeOf(error);
    let message = `${url} does not answer: ${reason}`;
    if (code === "ECONNREFUSED") {
      message = `${url} does not answer: no server listens there; start one with \`selvedge dev\`, or name another address in SELVEDGE_SERVER or as url of the client`;
    } else if (isCertificateError(error)) {
      message = `the certificate of ${url} is not accepted: ${reason}; for a certificate of your own, name the file of its authority in SELVEDGE_CA_FILE or as caFile of the client`;
    } else if (code === "ERR_SSL_WRONG_VERSION_NUMBER" || code === "ERR_SSL_PACKET_LENGTH_TOO_LONG") {
      message = `${url} does not answer with TLS: ${reason}; a server without a certificate has an address with http://`;
    }
    return new ConnectionFailed(message, { cause: error });
  }
}

/** A time limit, combined with the signal of the caller. */
class Limit {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #ms: number;
  readonly #abort = () => this.#controller.abort(this.#outer?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(ms: number, outer?: AbortSignal) {
    this.#ms = ms;
    this.#outer = outer;
    if (outer?.aborted) this.#abort();
    outer?.addEventListener("abort", this.#abort, { once: true });
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  restart(): void {
    clearTimeout(this.#timer);
    const timedOut = () => this.#controller.abort(new ConnectionFailed(`no answer within ${this.#ms} ms`));
    this.#timer = setTimeout(timedOut, this.#ms);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener("abort", this.#abort);
  }

  abort(): void {
    this.end();
    this.#controller.abort();
  }
}

/** Returns the time before a retry, with jitter so that clients do not retry together. */
export function backoff(attempt: number): number {
  return Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
}

/** Returns the code of an error or of its innermost cause that has one. */
function codeOf(error: unknown): string | undefined {
  const own = (error as { code?: unknown } | undefined)?.code;
  const inner = error instanceof Error ? codeOf(error.cause) : undefined;
  return inner ?? (typeof own === "string" ? own : undefined);
}

/** The codes with which Node says that a certificate was not accepted. */
const CERTIFICATE_CODES = new Set([
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "INVALID_CA",
  "INVALID_PURPOSE",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/** Returns true if the certificate of the server was not accepted. A repetition would not be, either. */
function isCertificateError(error: unknown): boolean {
  return CERTIFICATE_CODES.has(codeOf(error) ?? "");
}

/** Returns true if repeating the request later may succeed. */
export function isTemporary(error: unknown): boolean {
  return error instanceof ConnectionFailed || (error instanceof Problem && [429, 503].includes(error.status));
}

/** Returns the error of a refused request. A proxy may answer with something other than a problem document. */
function readProblem(status: number, text: string): Problem {
  let document: Partial<ProblemDocument> = {};
  try {
    document = fromWire<Partial<ProblemDocument>>(JSON.parse(text));
  } catch {
    // Not JSON: the status says enough.
  }
  const { code = status >= 500 ? "internal" : "refused", detail = text.slice(0, 200) } = document ?? {};
  return problemOf({ type: "about:blank", title: code, ...document, status, code, detail });
}

function search(query: Query | undefined): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === undefined || value === null) continue;
    // The values of a list are separated by commas, except tags, which may contain commas.
    if (name === "tag" && typeof value === "object") for (const tag of value) parameters.append(name, tag);
    else parameters.append(snake(name), String(value));
  }
  const text = parameters.toString();
  return text ? `?${text}` : "";
}
