// Schemas of configurations, made fit for a form: "or null" means that a field may be left out. Pure.

import type { Schema } from "./json_form.ts";

type ObjectSchema = Exclude<Schema, boolean>;

/** `Catch up window`, from `catch_up_window`. */
export function label(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function withoutNull(schema: ObjectSchema): ObjectSchema {
  const options = schema.anyOf?.filter((one) => typeof one === "boolean" || one.type !== "null");
  if (!options || options.length === schema.anyOf?.length) return schema;
  const { anyOf: _, default: otherwise, ...rest } = schema;
  const only = options[0];
  const kept = otherwise === null || otherwise === undefined ? rest : { ...rest, default: otherwise };
  return options.length === 1 && typeof only === "object" ? { ...only, ...kept } : { ...kept, anyOf: options };
}

function forForm(schema: Schema): Schema {
  if (typeof schema === "boolean" || !schema.properties) return schema;
  const properties: Record<string, Schema> = {};
  for (const [name, field] of Object.entries(schema.properties)) {
    if (typeof field === "boolean") properties[name] = field;
    else {
      const { default: value, ...rest } = withoutNull(field);
      const begins = value === null || value === undefined ? {} : { default: value };
      properties[name] = { ...rest, ...begins, title: label(name) };
    }
  }
  // The docstring of a model is its description: quotes of code are for its other readers.
  const about = schema.description?.replaceAll("``", "");
  return { ...schema, ...(about ? { description: about } : {}), properties };
}

/** The schema for a form, without the fields that are asked for elsewhere. */
export function configSchema(given: Readonly<Record<string, unknown>>, except: readonly string[] = []): Schema {
  const schema = given as ObjectSchema;
  const made = forForm(schema) as ObjectSchema;
  const properties = Object.fromEntries(
    Object.entries(made.properties ?? {}).filter(([name]) => !except.includes(name)),
  );
  const defs = Object.fromEntries(Object.entries(schema.$defs ?? {}).map(([name, one]) => [name, forForm(one)]));
  return {
    ...made,
    properties,
    required: (made.required ?? []).filter((name) => !except.includes(name)),
    ...(schema.$defs ? { $defs: defs } : {}),
  };
}
