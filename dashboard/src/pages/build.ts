// Routes of functions, triggers and the map.

import type { Route } from "../routes.ts";
import { asksList, asksOne } from "./asks.ts";
import { page } from "./more.ts";

export const buildRoutes: readonly Route[] = [
  {
    pattern: "/functions",
    nav: "functions",
    title: () => "Functions",
    page: page("FunctionsPage"),
    asks: asksList("/functions"),
  },
  { pattern: "/new/function", nav: "functions", title: () => "New function", page: page("NewFunctionPage") },
  {
    pattern: "/functions/:name",
    nav: "functions",
    title: ({ name }) => name ?? "",
    page: page("FunctionPage"),
    asks: asksOne("functions"),
  },
  {
    pattern: "/functions/:name/v/:n",
    nav: "functions",
    title: ({ name, n }) => `${name} v${n}`,
    page: page("VersionPage"),
  },
  {
    pattern: "/functions/:name/diff/:range",
    nav: "functions",
    title: ({ name, range }) => `${name} ${range}`,
    page: page("DiffPage"),
  },
  {
    pattern: "/triggers",
    nav: "triggers",
    title: () => "Triggers",
    page: page("TriggersPage"),
    asks: asksList("/triggers"),
  },
  { pattern: "/new/trigger", nav: "triggers", title: () => "New trigger", page: page("NewTriggerPage") },
  {
    pattern: "/triggers/:name",
    nav: "triggers",
    title: ({ name }) => name ?? "",
    page: page("TriggerPage"),
    asks: asksOne("triggers"),
  },
  { pattern: "/map", nav: "map", title: () => "Map", page: page("MapPage") },
];
