// The imports that the blocks of docs/sdk-typescript.md need.

// region: imports
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, Flow, Permanent, Retry, until, Worker } from "selvedge";
import { Server } from "selvedge/testing";

const client = new Client(); // SELVEDGE_SERVER, or http://127.0.0.1:7878
const worker = new Worker(client);
// endregion: imports

export const imported = { assert, test, Client, Flow, Permanent, Retry, until, Worker, Server, client, worker };
