// Renames the fields of requests and answers: camelCase in programs, snake_case on the wire. Content of the user, such
// as inputs, results and tags, is not touched; `types.ts` names the fields that hold it.

import { freeFields, mapFields } from "./types.js";

const snakeNames = new Map<string, string>();
const camelNames = new Map<string, string>();

function cached(names: Map<string, string>, name: string, rename: (name: string) => string): string {
  let renamed = names.get(name);
  if (renamed === undefined) {
    renamed = rename(name);
    names.set(name, renamed);
  }
  return renamed;
}

/** Returns the name of a field on the wire. */
export function snake(name: string): string {
  return cached(snakeNames, name, (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
}

function camel(name: string): string {
  return cached(camelNames, name, (name) => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()));
}

/** Converts the body of a request to its wire form. */
export function toWire(value: unknown): unknown {
  return renamed(value, snake);
}

/** Converts an answer from its wire form. */
export function fromWire<T>(value: unknown): T {
  return renamed(value, camel) as T;
}

function renamed(value: unknown, rename: (name: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => renamed(item, rename));
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  const fields: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(value)) {
    fields[rename(name)] = renamedField(snake(name), field, rename);
  }
  return fields;
}

function renamedField(wireName: string, field: unknown, rename: (name: string) => string): unknown {
  if (freeFields.has(wireName)) return field;
  if (!mapFields.has(wireName) || Array.isArray(field) || typeof field !== "object" || field === null) {
    return renamed(field, rename);
  }
  return Object.fromEntries(Object.entries(field).map(([key, item]) => [key, renamed(item, rename)]));
}
