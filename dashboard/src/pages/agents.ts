// Routes of agents and of their runs. Their pages are a chunk of their own.

import { later } from "../parts/later.tsx";
import type { Route } from "../routes.ts";
import { shortId } from "../short_ids.ts";

const page = later(() => import("./agent_pages.ts"));

export const agentRoutes: readonly Route[] = [
  { pattern: "/agents", nav: "agents", title: () => "Agents", page: page("AgentsPage") },
  { pattern: "/agents/:name", nav: "agents", title: ({ name }) => name ?? "", page: page("AgentPage") },
  { pattern: "/runs", nav: "runs", title: () => "Runs", page: page("RunsPage") },
  { pattern: "/runs/:id", nav: "runs", title: ({ id }) => `Run ${shortId(id ?? "")}`, page: page("RunPage") },
];
