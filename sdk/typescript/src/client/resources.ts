// Waitpoints, webhooks, workers and bulk jobs, and the pages of a list.

import type * as api from "../types.js";
import type { Query, Transport } from "./transport.js";

/** The most items of one page. */
const PAGE_LIMIT = 200;

/** Yields the items of a list, page by page. */
export async function* pages<T>(transport: Transport, path: string, query: Query = {}): AsyncGenerator<T> {
  let cursor: string | null | undefined;
  do {
    type Page = { items: T[]; nextCursor: string | null };
    const page: Page = await transport.get<Page>(path, { limit: PAGE_LIMIT, ...query, cursor });
    yield* page.items;
    cursor = page.nextCursor;
  } while (cursor !== null);
}

/** The filters of a list of waitpoints. */
export type ListWaitpointsOptions = Omit<api.ListWaitpointsQuery, "cursor" | "limit">;

/** The waitpoints of the namespace: addresses to which the holder of a token delivers one signal. */
export class Waitpoints {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Delivers a signal with the token of the waitpoint. Needs no API key. */
  signal(id: string, token: string, options: Omit<api.SignalWaitpointRequest, "token"> = {}): Promise<api.Delivery> {
    return this.#transport.post(path(id, "/signal"), { ...options, token });
  }

  /** Shows the waitpoint to the holder of its token. */
  look(id: string, token: string): Promise<api.LookAtWaitpointAnswer> {
    return this.#transport.post(path(id, "/look"), { token });
  }

  /** Delivers as an operator, without the token. */
  answer(id: string, options: api.AnswerWaitpointRequest = {}): Promise<api.Delivery> {
    return this.#transport.post(path(id, "/answer"), options);
  }

  /** Returns a new token; the old one ends. */
  reissue(id: string, options: api.ReissueWaitpointRequest = {}): Promise<api.ReissueWaitpointAnswer> {
    return this.#transport.post(path(id, "/reissue"), options);
  }

  /** Ends the token. */
  async revoke(id: string): Promise<api.Waitpoint> {
    const answer = await this.#transport.post<api.RevokeWaitpointAnswer>(path(id, "/revoke"));
    return answer.waitpoint;
  }

  /** Returns one, without its token. */
  get(id: string): Promise<api.Waitpoint> {
    return this.#transport.get(path(id));
  }

  /** Yields waitpoints, newest first. */
  list(options: ListWaitpointsOptions = {}): AsyncGenerator<api.Waitpoint> {
    return pages(this.#transport, "/v1/waitpoints", options as Query);
  }
}

function path(id: string, action = ""): string {
  return `/v1/waitpoints/${encodeURIComponent(id)}${action}`;
}

/** The webhooks of the namespace: subscriptions that the server delivers to a URL. */
export class Webhooks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates or replaces a webhook. The answer to the creation has its secret, this once. */
  put(name: string, webhook: api.PutWebhookRequest): Promise<api.PutWebhookAnswer> {
    return this.#transport.change("PUT", webhookPath(name), webhook);
  }

  /** Changes the fields that it names. */
  patch(name: string, patch: Partial<api.PutWebhookRequest>): Promise<api.PatchWebhookAnswer> {
    return this.#transport.change("PATCH", webhookPath(name), patch);
  }

  /** Returns a webhook. */
  get(name: string): Promise<api.GetWebhookAnswer> {
    return this.#transport.get(webhookPath(name));
  }

  /** Yields all webhooks, ordered by name. */
  list(): AsyncGenerator<api.ListWebhooksAnswer["items"][number]> {
    return pages(this.#transport, "/v1/webhooks");
  }

  /** Deletes a webhook. */
  async delete(name: string): Promise<void> {
    await this.#transport.change("DELETE", webhookPath(name));
  }

  /** Returns a new secret; the old one is valid for the grace period. */
  rotateSecret(name: string, options: api.RotateWebhookSecretRequest): Promise<api.RotateWebhookSecretAnswer> {
    return this.#transport.post(webhookPath(name, "/rotate-secret"), options);
  }

  /** Yields the deliveries of a webhook. */
  deliveries(name: string): AsyncGenerator<api.ListDeliveriesAnswer["items"][number]> {
    return pages(this.#transport, webhookPath(name, "/deliveries"));
  }

  /** Delivers again. */
  replay(name: string, delivery: string): Promise<api.ReplayDeliveryAnswer> {
    return this.#transport.post(webhookPath(name, `/deliveries/${encodeURIComponent(delivery)}/replay`));
  }
}

function webhookPath(name: string, action = ""): string {
  return `/v1/webhooks/${encodeURIComponent(name)}${action}`;
}

/** The workers of the namespace. */
export class Workers {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Yields the live workers, and those that ended in the last 15 minutes. */
  list(): AsyncGenerator<api.Worker> {
    return pages(this.#transport, "/v1/workers");
  }

  /** Asks a worker to drain: it claims no more, finishes, and departs. */
  async drain(instance: string): Promise<void> {
    await this.#transport.post(`/v1/workers/${encodeURIComponent(instance)}/drain`);
  }
}

/** Actions on any number of executions, in the background. */
export class BulkJobs {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Starts a job. */
  start(request: api.StartBulkJobRequest): Promise<api.StartBulkJobAnswer> {
    return this.#transport.post("/v1/bulk-jobs", request);
  }

  /** Returns a job with its progress. */
  get(id: string): Promise<api.GetBulkJobAnswer> {
    return this.#transport.get(`/v1/bulk-jobs/${encodeURIComponent(id)}`);
  }

  /** Yields jobs, newest first. */
  list(): AsyncGenerator<api.ListBulkJobsAnswer["items"][number]> {
    return pages(this.#transport, "/v1/bulk-jobs");
  }

  /** Stops a job. What it has done stays done. */
  stop(id: string): Promise<api.StopBulkJobAnswer> {
    return this.#transport.change("DELETE", `/v1/bulk-jobs/${encodeURIComponent(id)}`);
  }
}
