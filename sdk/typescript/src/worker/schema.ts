// Schemas, by their shape: anything with `parse` such as zod's, and Standard Schema (`~standard`).

/** A schema that returns the parsed value or throws. */
export interface ParseSchema<T> {
  parse(value: unknown): T;
}

/** A schema of the Standard Schema interface. */
export interface StandardSchema<T> {
  readonly "~standard": {
    validate(value: unknown): StandardResult<T> | Promise<StandardResult<T>>;
  };
}

type StandardResult<T> = { value: T; issues?: undefined } | { issues: ReadonlyArray<{ message: string }> };

/** A schema of any library with one of these shapes. */
export type Schema<T> = ParseSchema<T> | StandardSchema<T>;

/** Parses a value. Throws if it does not fit. */
export async function parseWith<T>(schema: Schema<T>, value: unknown): Promise<T> {
  if ("parse" in schema) return schema.parse(value);
  const result = await schema["~standard"].validate(value);
  if (result.issues) throw new Error(result.issues.map((issue) => issue.message).join("; "));
  return result.value;
}
