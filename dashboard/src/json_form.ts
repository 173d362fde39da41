// Forms from JSON Schema (2020-12), as far as forms are good for: the rest is JSON text. The server validates. Pure.

import { jsonText, parseJson } from "./json_numbers.ts";

export type Schema =
  | boolean
  | {
      readonly type?: string | readonly string[];
      readonly title?: string;
      readonly description?: string;
      readonly default?: unknown;
      readonly examples?: readonly unknown[];
      readonly properties?: Readonly<Record<string, Schema>>;
      readonly required?: readonly string[];
      readonly items?: Schema;
      readonly minItems?: number;
      readonly prefixItems?: readonly Schema[];
      readonly enum?: readonly unknown[];
      readonly const?: unknown;
      readonly oneOf?: readonly Schema[];
      readonly anyOf?: readonly Schema[];
      readonly format?: string;
      readonly additionalProperties?: Schema;
      readonly minimum?: number;
      readonly maximum?: number;
      readonly $ref?: string;
      readonly $defs?: Readonly<Record<string, Schema>>;
    };

type ObjectSchema = Exclude<Schema, boolean>;

export type Field =
  | { readonly kind: "object"; readonly fields: readonly NamedField[]; readonly open: boolean }
  | { readonly kind: "array"; readonly item: Schema }
  | { readonly kind: "enum"; readonly values: readonly unknown[] }
  | { readonly kind: "const"; readonly value: unknown }
  | { readonly kind: "oneOf"; readonly options: readonly Option[] }
  | { readonly kind: "boolean" }
  | { readonly kind: "number"; readonly whole: boolean }
  | { readonly kind: "text"; readonly format: string | null }
  | { readonly kind: "json" };

export interface NamedField {
  readonly name: string;
  readonly schema: Schema;
  readonly required: boolean;
}

export interface Option {
  readonly title: string;
  readonly schema: Schema;
}

/** The schema behind references within the document; a reference that leads nowhere or in a circle is "anything". */
export function resolve(schema: Schema | undefined, root: Schema): ObjectSchema {
  let one: Schema | undefined = schema;
  for (let steps = 0; steps < 20; steps++) {
    if (one === undefined || typeof one === "boolean") return {};
    if (!one.$ref) return one;
    const name = /^#\/\$defs\/(.+)$/.exec(one.$ref)?.[1];
    const key = name?.replaceAll("~1", "/").replaceAll("~0", "~");
    one = key && typeof root !== "boolean" ? root.$defs?.[key] : undefined;
  }
  return {};
}

/** How a schema is asked for. */
export function fieldOf(schema: Schema | undefined, root: Schema): Field {
  const one = resolve(schema, root);
  if (one.const !== undefined) return { kind: "const", value: one.const };
  if (one.enum) return { kind: "enum", values: one.enum };
  const several = one.oneOf ?? one.anyOf;
  if (several?.length) {
    const real = several.filter((option) => resolve(option, root).type !== "null");
    if (real.every((option) => resolve(option, root).const !== undefined))
      return { kind: "enum", values: several.map((option) => resolve(option, root).const ?? null) };
    return { kind: "oneOf", options: several.map((option) => ({ title: titleOf(option, root), schema: option })) };
  }
  switch (one.type) {
    case "object":
      if (!one.properties) return { kind: "json" };
      return {
        kind: "object",
        open: one.additionalProperties !== undefined && one.additionalProperties !== false,
        fields: Object.entries(one.properties).map(([name, field]) => ({
          name,
          schema: field,
          required: one.required?.includes(name) ?? false,
        })),
      };
    case "array":
      return one.prefixItems || one.items === undefined ? { kind: "json" } : { kind: "array", item: one.items };
    case "boolean":
      return { kind: "boolean" };
    case "integer":
      return { kind: "number", whole: true };
    case "number":
      return { kind: "number", whole: false };
    case "string":
      return { kind: "text", format: one.format ?? null };
    default:
      return { kind: "json" };
  }
}

/** What a schema is called among others: its title, else its kind. */
export function titleOf(schema: Schema, root: Schema): string {
  const one = resolve(schema, root);
  if (one.title) return one.title;
  if (one.const !== undefined) return jsonText(one.const);
  if (Array.isArray(one.type)) return one.type.join(" or ");
  return typeof one.type === "string" ? one.type : "any value";
}

/** The value a form begins with: defaults, and what can be only one thing. Undefined is "not given". */
export function initial(schema: Schema | undefined, root: Schema, depth = 0): unknown {
  const one = resolve(schema, root);
  if (one.default !== undefined) return one.default;
  const field = fieldOf(one, root);
  if (field.kind === "const") return field.value;
  // A list that needs an item begins with one.
  if (field.kind === "array" && one.minItems)
    return [initial(field.item, root, depth + 1) ?? (fieldOf(field.item, root).kind === "text" ? "" : null)];
  if (field.kind !== "object" || depth > 8) return undefined;
  const value: Record<string, unknown> = {};
  for (const { name, schema: child, required } of field.fields) {
    const begun = initial(child, root, depth + 1);
    const empty = begun !== null && typeof begun === "object" && !Object.keys(begun).length;
    const list = Array.isArray(begun) && resolve(child, root).default === undefined;
    if (begun !== undefined && (required || !(empty || list))) value[name] = begun;
  }
  return value;
}

/** A number as typed; text that is no number stays text, and the server says what is wrong with it. */
export function typedNumber(text: string): unknown {
  const trimmed = text.trim();
  if (!trimmed) return undefined;
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(trimmed) ? (typedJson(trimmed).value ?? text) : text;
}

/** JSON as typed: the value, or what is wrong with it. Empty is "not given". */
export function typedJson(text: string): { readonly value?: unknown; readonly problem?: string } {
  if (!text.trim()) return {};
  try {
    return { value: parseJson(text) };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : "not JSON" };
  }
}

/** The pointer of a member below `pointer` (RFC 6901). */
export function member(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** The object with one member changed; undefined takes it away. */
export function withMember(value: unknown, name: string, changed: unknown): Record<string, unknown> {
  const next: Record<string, unknown> = { ...(value as Record<string, unknown> | null | undefined) };
  if (changed === undefined) delete next[name];
  else Object.defineProperty(next, name, { value: changed, enumerable: true, configurable: true, writable: true });
  return next;
}
