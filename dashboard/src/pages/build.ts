// Routes of functions, triggers and the map.

import type { Route } from "../routes.ts";
import { page } from "./more.ts";

export const buildRoutes: readonly Route[] = [
  { pattern: "/functions", nav: "functions", title: () => "Functions", page: page("FunctionsPage") },
  { pattern: "/new/function", nav: "functions", title: () => "New function", page: page("NewFunctionPage") },
  { pattern: "/functions/:name", nav: "functions", title: ({ name }) => name ?? "", page: page("FunctionPage") },
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
  { pattern: "/triggers", nav: "triggers", title: () => "Triggers", page: page("TriggersPage") },
  { pattern: "/new/trigger", nav: "triggers", title: () => "New trigger", page: page("NewTriggerPage") },
  { pattern: "/triggers/:name", nav: "triggers", title: ({ name }) => name ?? "", page: page("TriggerPage") },
  { pattern: "/map", nav: "map", title: () => "Map", page: page("MapPage") },
];
