// Generates src/types.ts and src/wire.ts from the OpenAPI document.
//
//   node generate-types.mjs [--check] [DOCUMENT]
//
// src/types.ts has the types of the client in camelCase. src/wire.ts has the types of the worker protocol as they
// are on the wire, because a worker reads thousands of claims per second and does not rename their fields.
//
// `freeFields` and `mapFields` name the fields whose content belongs to the user. The client renames no key inside
// them. A field that the document describes loosely in one place and as an object with fields in another, such as the
// filter of a bulk job, is not the user's.
//
// With --check nothing is written; the exit code is 1 if a file would change.

import { readFileSync, writeFileSync } from "node:fs";

const check = process.argv.includes("--check");
const path = process.argv.slice(2).find((argument) => !argument.startsWith("--"));
const source = readFileSync(path ?? new URL("../openapi.json", import.meta.url), "utf8");
const document = JSON.parse(source, sorted);
const schemas = document.components.schemas;

/** Sorts the keys of objects, so that the order in the document does not matter. */
function sorted(_, value) {
  if (!value || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The roots of src/wire.ts. Types that they mention follow. */
const wireRoots = ["ClaimRequest", "ClaimAnswer", "HeartbeatAnswer", "FenceRequest", "Op", "OpResult"];

const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const pascal = (name) => camel(`_${name}`);
const literal = (value) => JSON.stringify(value);

/** Renders schemas as TypeScript, with this function from field names to property names. */
class Renderer {
  constructor(rename) {
    this.rename = rename;
    this.mentioned = new Set();
  }

  type(schema, indent) {
    if (schema === true || Object.keys(schema).length === 0) return "unknown";
    if (schema.$ref) return this.reference(schema.$ref);
    if ("const" in schema) return literal(schema.const);
    if (schema.enum) return union(schema.enum.map(literal));
    const choices = schema.properties ? undefined : (schema.oneOf ?? schema.anyOf);
    if (choices) return union(choices.map((choice) => this.type(choice, indent)));
    if (schema.allOf) return schema.allOf.map((part) => this.type(part, indent)).join(" & ");
    if (schema.type === undefined) return schema.properties ? this.object(schema, indent) : "unknown";
    return union([schema.type].flat().map((type) => this.plain(type, schema, indent)));
  }

  reference(reference) {
    const name = reference.slice("#/components/schemas/".length);
    this.mentioned.add(name);
    return name;
  }

  plain(type, schema, indent) {
    switch (type) {
      case "string":
      case "boolean":
      case "null":
        return type;
      case "integer":
      case "number":
        return "number";
      case "array": {
        const item = this.type(schema.items ?? {}, indent);
        return /[ {]/.test(item) ? `Array<${item}>` : `${item}[]`;
      }
      case "object":
        return this.object(schema, indent);
      default:
        throw new Error(`the type ${type} has no counterpart`);
    }
  }

  object(schema, indent) {
    if (!schema.properties) {
      const values = schema.additionalProperties;
      if (values === undefined || values === false) return "Record<string, never>";
      return `Record<string, ${this.type(values, indent)}>`;
    }
    const required = new Set(schema.required ?? []);
    const lines = Object.entries(schema.properties).map(([name, property]) => {
      const isFree = this.type(property, "") === "unknown";
      const mark = required.has(name) && !isFree ? "" : "?";
      return `${comment(property, `${indent}  `)}${indent}  ${this.rename(name)}${mark}: ${this.type(property, `${indent}  `)};`;
    });
    return `{\n${lines.join("\n")}\n${indent}}`;
  }

  declaration(name, schema) {
    const text = this.type(schema, "");
    const head = comment(schema, "");
    return text.startsWith("{") && !text.includes("\n} |")
      ? `${head}export interface ${name} ${text}\n`
      : `${head}export type ${name} = ${text};\n`;
  }
}

function union(parts) {
  return [...new Set(parts)].join(" | ");
}

function comment(schema, indent) {
  if (!schema.description) return "";
  const text = schema.description.replaceAll("*/", "*\\/").replaceAll("\n", " ");
  return `${indent}/** ${text} */\n`;
}

/** Returns the types that operations have of their own: queries, requests and answers. */
function operationTypes(renderer) {
  const declarations = [];
  for (const [path, operations] of Object.entries(document.paths)) {
    if (workerPath.test(path)) continue;
    for (const operation of Object.values(operations)) {
      const name = pascal(operation.operationId);
      const query = (operation.parameters ?? []).filter((parameter) => parameter.in === "query");
      if (query.length > 0) declarations.push([`${name}Query`, querySchema(query)]);
      const request = operation.requestBody?.content?.["application/json"]?.schema;
      if (request && !request.$ref) declarations.push([`${name}Request`, request]);
      const answer = answerSchema(operation);
      if (answer && !answer.$ref) declarations.push([`${name}Answer`, answer]);
    }
  }
  return declarations.map(([name, schema]) => renderer.declaration(name, schema));
}

/** Returns the schema of a successful answer: of several, the fields of all, required where all have them. */
function answerSchema(operation) {
  const contents = ["200", "201", "202"].map((status) => operation.responses[status]?.content?.["application/json"]);
  const answers = contents.filter((content) => content?.schema).map((content) => content.schema);
  if (answers.length < 2 || answers.some((answer) => !answer.properties)) return answers[0];
  const properties = Object.assign({}, ...answers.map((answer) => answer.properties));
  const isRequired = (name) => answers.every((answer) => answer.required?.includes(name));
  return { type: "object", properties: sorted("", properties), required: Object.keys(properties).filter(isRequired) };
}

function querySchema(parameters) {
  const properties = parameters.map((parameter) => [
    parameter.name,
    { ...parameter.schema, description: parameter.description },
  ]);
  return { type: "object", properties: Object.fromEntries(properties) };
}

/** Returns the names of fields with user content: those with any content, and those with any keys. */
function userFields() {
  const kinds = new Map();
  const note = (name, kind) => kinds.set(name, (kinds.get(name) ?? new Set()).add(kind));
  const visit = (schema) => {
    for (const [name, property] of Object.entries(schema.properties ?? {})) note(name, kindOf(property));
    for (const part of Object.values(schema)) {
      if (part && typeof part === "object") visit(part);
    }
  };
  visit(schemas);
  visit(document.paths);
  const named = (kind) => [...kinds].filter(([, found]) => found.has(kind) && !found.has("object"));
  const names = (kind) =>
    named(kind)
      .map(([name]) => name)
      .sort();
  return { free: names("free"), map: names("map") };
}

function kindOf(schema) {
  if (schema.$ref) return kindOf(schemas[schema.$ref.slice("#/components/schemas/".length)]);
  if (schema.properties || schema.oneOf || schema.anyOf || schema.allOf) return "object";
  if ([schema.type].flat().includes("object")) {
    const values = schema.additionalProperties ?? {};
    return kindOf(values) === "free" ? "free" : "map";
  }
  const isFree = schema.type === undefined && schema.enum === undefined && !("const" in schema);
  return isFree ? "free" : "plain";
}

/** The operations of workers, whose types are only those of the wire. */
const workerPath = /^\/v1\/workers\/\{instance\}\/(claim|report|heartbeat)$/;

/** Returns the names of the schemas that requests and answers of the client mention. */
function publicNames() {
  const names = new Set();
  const visit = (value) => {
    if (!value || typeof value !== "object") return;
    if (typeof value.$ref === "string" && value.$ref.startsWith("#/components/schemas/")) {
      const name = value.$ref.slice("#/components/schemas/".length);
      if (!names.has(name)) {
        names.add(name);
        visit(schemas[name]);
      }
    }
    Object.values(value).forEach(visit);
  };
  Object.entries(document.paths).forEach(([path, operations]) => workerPath.test(path) || visit(operations));
  return names;
}

function publicTypes() {
  const renderer = new Renderer(camel);
  const names = publicNames();
  const declarations = Object.entries(schemas)
    .filter(([name]) => names.has(name))
    .map(([name, schema]) => renderer.declaration(name, schema));
  const { free, map } = userFields();
  const list = (names) => `new Set([${names.map((name) => `\n  ${literal(name)},`).join("")}\n])`;
  return [
    "// The types of the API, in camelCase. Generated from the OpenAPI document by generate-types.mjs.\n",
    `/** Fields with any JSON of the user. No key inside is renamed. */\nexport const freeFields: ReadonlySet<string> = ${list(free)};\n`,
    `/** Fields with an object whose keys the user chooses. These keys are not renamed. */\nexport const mapFields: ReadonlySet<string> = ${list(map)};\n`,
    ...declarations,
    ...operationTypes(renderer),
  ].join("\n");
}

function wireTypes() {
  const renderer = new Renderer((name) => name);
  const declared = new Map();
  const pending = [...wireRoots];
  while (pending.length > 0) {
    const name = pending.shift();
    if (declared.has(name)) continue;
    declared.set(name, renderer.declaration(name, schemas[name]));
    pending.push(...renderer.mentioned);
  }
  return [
    "// The types of the worker protocol, as on the wire. Generated from the OpenAPI document by generate-types.mjs.\n",
    ...[...declared].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, declaration]) => declaration),
  ].join("\n");
}

for (const [name, text] of [
  ["src/types.ts", publicTypes()],
  ["src/wire.ts", wireTypes()],
]) {
  const file = new URL(name, import.meta.url);
  if (!check) {
    writeFileSync(file, text);
  } else if (readFileSync(file, "utf8") !== text) {
    console.error(`${name} differs from the OpenAPI document; run npm run generate`);
    process.exitCode = 1;
  }
}
