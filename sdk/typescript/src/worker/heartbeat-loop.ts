// The heartbeats of a worker: one long-polling call at a time, so that a lost lease or a requested cancellation is
// noticed at once.
//
// A call names the leases that were held when it began. A newer lease is named by the next call, which replaces the
// outstanding one a moment after the claim. Work shorter than that moment costs no heartbeat of its own, and no lease
// stays unnamed long enough for the server to treat its claim as lost.
//
// The source of this function also runs in a thread, where it is all there is: it may use nothing from outside itself.

import type * as wire from "../wire.js";

/** A message to the loop. */
export type ToLoop =
  { type: "add"; leases: wire.FenceRequest[] } | { type: "remove"; leases: string[] } | { type: "stop" };

/** A message from the loop. */
export type FromLoop =
  | { type: "answer"; answer: Pick<wire.HeartbeatAnswer, "lost" | "cancel_requested" | "drain"> }
  | { type: "failed"; reason: string }
  | { type: "refused"; problem: wire.Problem };

/** The settings of the loop. */
export interface LoopSettings {
  /** The addresses. Where one cannot be reached, the next is tried. */
  urls: readonly string[];
  /** The file with the certificates to trust. */
  caFile: string | undefined;
  headers: Record<string, string>;
  leaseTtlMs: number;
  incarnation: string | undefined;
}

/** The connection between the loop and its worker. */
export interface LoopPort {
  post(message: FromLoop): void;
  receive(listener: (message: ToLoop) => void): void;
}

/** Sends heartbeats until it is told to stop. */
export function heartbeatLoop(port: LoopPort, settings: LoopSettings, send: typeof fetch): void {
  const newLeaseDelay = Math.min(250, settings.leaseTtlMs / 6);
  const pollInterval = Math.min(1000, settings.leaseTtlMs / 6);
  const leases = new Map<string, wire.FenceRequest>();
  let call: { controller: AbortController; named: Set<string> } | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let nextAt = Number.POSITIVE_INFINITY;
  let polling = false;
  let stopped = false;
  let current = 0;

  function schedule(delay: number): void {
    const at = Date.now() + delay;
    if (stopped || at >= nextAt) return;
    nextAt = at;
    clearTimeout(timer);
    timer = setTimeout(begin, delay);
  }

  function begin(): void {
    nextAt = Number.POSITIVE_INFINITY;
    if (call) {
      const { named } = call;
      if ([...leases.keys()].every((lease) => named.has(lease))) return;
      call.controller.abort();
    }
    const begun = { controller: new AbortController(), named: new Set(leases.keys()) };
    call = begun;
    void beat([...leases.values()], begun.controller).then((delay) => {
      if (call !== begun) return;
      call = undefined;
      if (delay !== undefined) schedule(delay);
    });
  }

  /** Sends one heartbeat, and returns the time until the next. */
  async function beat(named: wire.FenceRequest[], controller: AbortController): Promise<number | undefined> {
    const wait = polling ? 0 : Math.floor(settings.leaseTtlMs / 3);
    const limit = setTimeout(() => controller.abort(), wait + Math.max(5000, settings.leaseTtlMs / 3));
    try {
      const response = await send(settings.urls[current] as string, {
        method: "POST",
        headers: { ...settings.headers, "content-type": "application/json" },
        body: JSON.stringify({ leases: named, wait_ms: wait, incarnation: settings.incarnation }),
        signal: controller.signal,
      });
      const answer = (await response.json()) as wire.HeartbeatAnswer & wire.Problem;
      if (call?.controller !== controller || stopped) return undefined;
      if (response.ok) return onAnswer(answer);
      if (response.status === 429 || response.status === 503) throw new Error(answer.detail);
      port.post({ type: "refused", problem: answer });
      return pollInterval;
    } catch (error) {
      if (call?.controller !== controller || stopped) return undefined;
      current = (current + 1) % settings.urls.length;
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      port.post({ type: "failed", reason: cause instanceof Error ? cause.message : String(cause) });
      return pollInterval;
    } finally {
      clearTimeout(limit);
    }
  }

  function onAnswer({ lost, cancel_requested, drain }: wire.HeartbeatAnswer): number {
    for (const { lease_id } of lost) leases.delete(lease_id);
    if (lost.length > 0 || cancel_requested.length > 0 || drain) {
      port.post({ type: "answer", answer: { lost, cancel_requested, drain } });
    }
    // The server answers at once while a cancellation or a drain is pending, so a long poll is useless then.
    polling = cancel_requested.length > 0 || drain;
    return polling ? pollInterval : 0;
  }

  port.receive((message) => {
    if (message.type === "add") {
      for (const lease of message.leases) leases.set(lease.lease_id, lease);
      schedule(newLeaseDelay);
    } else if (message.type === "remove") {
      for (const lease of message.leases) leases.delete(lease);
    } else {
      stopped = true;
      clearTimeout(timer);
      call?.controller.abort();
    }
  });
  schedule(newLeaseDelay);
}
