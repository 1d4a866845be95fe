// Order and e-mail: the row of an order and the e-mail about it commit in one SQL transaction, or not at all.
//
// Needs a server on Postgres, whose database also has the table of the shop: DATABASE_URL.

import { randomUUID } from "node:crypto";
import pg from "pg";
import { type Client, NotFound, type Worker } from "selvedge";

export function tasks(worker: Worker): void {
  // The mail service recognises a repetition by the key.
  worker.task("confirm-order", (ctx, order: number) => ctx.step("send", () => sendMail(order, ctx.idempotencyKey)));
}

async function sendMail(order: number, _key: string): Promise<string> {
  return `order ${order} is confirmed`;
}

/** Inserts an order and submits its e-mail. The caller commits. Returns the id of the execution. */
async function placeOrder(database: pg.Client, item: string): Promise<string> {
  const execution = randomUUID();
  const order = await database.query<{ id: number }>("insert into shop_orders (item) values ($1) returning id", [item]);
  await database.query("select selvedge.submit('confirm-order', id => $1, input => $2, notify => true)", [
    execution,
    JSON.stringify(order.rows[0]?.id),
  ]);
  return execution;
}

export async function main(client: Client): Promise<unknown> {
  const database = new pg.Client(process.env.DATABASE_URL);
  await database.connect();
  await database.query("create table if not exists shop_orders (id serial primary key, item text)");
  await database.query("begin");
  const withdrawn = await placeOrder(database, "a lamp that is out of stock");
  await database.query("rollback"); // neither the order nor the e-mail exists
  await database.query("begin");
  const placed = await placeOrder(database, "a lamp");
  await database.query("commit"); // both exist
  await database.end();
  for await (const event of client.events({ start: "beginning", types: ["execution.submitted"] })) {
    if (event.execution === placed) break;
  }
  const mail = await client.result<string>(placed, { timeoutMs: 60_000 });
  const missing = await client.get(withdrawn).catch((error: unknown) => error);
  return [mail.slice(0, 5), missing instanceof NotFound];
}
