// Routes of language models, of agents and of their runs.

import type { Route } from "../routes.ts";
import { shortId } from "../short_ids.ts";
import { asksOne } from "./asks.ts";
import { page } from "./more.ts";

/** The tab of an execution that shows what it asked of models. */
export const modelsTab = () => page("ExecutionCalls");

export const agentRoutes: readonly Route[] = [
  { pattern: "/models", nav: "models", title: () => "Models", page: page("ModelsPage") },
  { pattern: "/new/model", nav: "models", title: () => "New model", page: page("NewModelPage") },
  { pattern: "/models/:name", nav: "models", title: ({ name }) => name ?? "", page: page("ModelPage") },
  { pattern: "/calls", nav: "calls", title: () => "Model calls", page: page("CallsPage") },
  { pattern: "/calls/:id", nav: "calls", title: ({ id }) => `Model call ${shortId(id ?? "")}`, page: page("CallPage") },
  { pattern: "/spend", nav: "spend", title: () => "Spend", page: page("SpendPage") },
  { pattern: "/agents", nav: "agents", title: () => "Agents", page: page("AgentsPage") },
  { pattern: "/agents/:name", nav: "agents", title: ({ name }) => name ?? "", page: page("AgentPage") },
  { pattern: "/runs", nav: "runs", title: () => "Runs", page: page("RunsPage") },
  {
    pattern: "/runs/:id",
    nav: "runs",
    title: ({ id }) => `Run ${shortId(id ?? "")}`,
    page: page("RunPage"),
    asks: asksOne("runs"),
  },
];
