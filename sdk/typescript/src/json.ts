// The types of values that went through JSON: what `JSON.parse(JSON.stringify(value))` returns.

type Dropped = undefined | symbol | ((...parameters: never[]) => unknown);

type Keys<T, Optional extends boolean> = {
  [K in keyof T]-?: K extends symbol
    ? never
    : [T[K]] extends [Dropped]
      ? never
      : IsOptional<T[K]> extends Optional
        ? K
        : never;
}[keyof T];

type IsOptional<T> = unknown extends T ? false : undefined extends T ? true : false;

type JsonObject<T> = string extends keyof T
  ? { [K in keyof T]: Json<Exclude<T[K], undefined>> }
  : Flat<{ [K in Keys<T, false>]: Json<T[K]> } & { [K in Keys<T, true>]?: Json<Exclude<T[K], Dropped>> }>;

type Flat<T> = { [K in keyof T]: T[K] };

/**
 * The type of a value of type `T` that was stored as JSON and read again, such as the result of a step or of an
 * execution: a `Date` is a string, a `Map` an empty object, undefined is null, methods are gone.
 */
export type Json<T> = unknown extends T
  ? T
  : T extends { toJSON(...parameters: never[]): infer Value }
    ? Json<Value>
    : T extends string | number | boolean | null
      ? T
      : T extends bigint
        ? never
        : T extends Dropped | void
          ? null
          : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
            ? Record<string, never>
            : T extends readonly unknown[]
              ? { [K in keyof T]: Json<T[K]> }
              : JsonObject<T>;
