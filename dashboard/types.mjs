// Writes src/api.gen.ts: the types of the API's rows and the paths of its routes, from openapi.json.
// openapi.json itself is written by `python -m functory.api.openapi`.

import { readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

process.chdir(dirname(fileURLToPath(import.meta.url)));
const api = JSON.parse(readFileSync("openapi.json", "utf8"));

const nameOf = (text) => text.replace(/[^A-Za-z0-9_]/g, "_");

function typeOf(schema, depth = 0) {
  if (schema === true || schema === undefined || Object.keys(schema).length === 0) return "unknown";
  if (schema.$ref) return nameOf(schema.$ref.split("/").at(-1));
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return [...new Set(several.map((part) => typeOf(part, depth)))].join(" | ");
  if (schema.allOf) return schema.allOf.map((part) => typeOf(part, depth)).join(" & ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type }, depth)).join(" | ");
  switch (schema.type) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array": {
      if (schema.prefixItems) return `[${schema.prefixItems.map((part) => typeOf(part, depth)).join(", ")}]`;
      const item = typeOf(schema.items, depth);
      return /[|&]/.test(item) ? `(${item})[]` : `${item}[]`;
    }
    default:
      return objectOf(schema, depth);
  }
}

// Fields with a default are always in an answer: only those of a request's body may be left out.
function objectOf(schema, depth) {
  if (!schema.properties) {
    const rest = schema.additionalProperties;
    return `Record<string, ${rest && rest !== true ? typeOf(rest, depth) : "unknown"}>`;
  }
  const required = new Set(schema.required ?? []);
  const pad = "  ".repeat(depth + 1);
  const lines = Object.entries(schema.properties).map(([name, field]) => {
    const note = field.description ? `${pad}/** ${field.description.replaceAll("*/", "* /")} */\n` : "";
    const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
    return `${note}${pad}${key}${required.has(name) || "default" in field ? "" : "?"}: ${typeOf(field, depth + 1)};`;
  });
  return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
}

const schemas = Object.entries(api.components?.schemas ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
const routes = Object.entries(api.paths)
  .filter(([path]) => path.startsWith("/api/v1/"))
  .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.slice(7)}`))
  .sort();

writeFileSync(
  "src/api.gen.ts",
  [
    "// Written by types.mjs from openapi.json. Do not edit.",
    ...schemas.map(([name, schema]) => `export type ${nameOf(name)} = ${typeOf(schema)};`),
    `/** The routes of the API: method and path below /api/v1. */\nexport type ApiRoute =\n${
      routes.map((route) => `  | ${JSON.stringify(route)}`).join("\n") || "  never"
    };`,
    "",
  ].join("\n\n"),
);
