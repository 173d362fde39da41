// The navigation: seven groups. An entry is drawn when its page exists and the person has the right to it.

import type { MarkName } from "../parts/marks.ts";
import type { Right } from "../rows.ts";
import { type Href, urls } from "../urls.ts";

export interface Entry {
  readonly id: string;
  readonly title: string;
  readonly mark: MarkName;
  readonly to: () => Href;
  readonly needs: Right;
  /** The letter after `g`. */
  readonly key?: string;
}

export interface Group {
  readonly title: string;
  readonly entries: readonly Entry[];
}

export const NAVIGATION: readonly Group[] = [
  {
    title: "Now",
    entries: [
      { id: "overview", title: "Overview", mark: "overview", to: urls.overview, needs: "view", key: "o" },
      { id: "executions", title: "Executions", mark: "running", to: urls.executions, needs: "view", key: "x" },
      { id: "events", title: "Events", mark: "event", to: urls.events, needs: "view", key: "e" },
    ],
  },
  {
    title: "Build",
    entries: [
      { id: "functions", title: "Functions", mark: "function", to: urls.functions, needs: "view", key: "f" },
      { id: "triggers", title: "Triggers", mark: "trigger", to: urls.triggers, needs: "view", key: "t" },
      { id: "map", title: "Map", mark: "map", to: urls.map, needs: "view", key: "m" },
    ],
  },
  {
    title: "Sources",
    entries: [
      { id: "schedules", title: "Schedules", mark: "schedule", to: urls.schedules, needs: "view", key: "s" },
      { id: "watches", title: "Watches", mark: "file", to: urls.watches, needs: "view", key: "w" },
      { id: "webhooks", title: "Webhooks", mark: "webhook", to: urls.webhooks, needs: "view", key: "h" },
      { id: "queues", title: "Queues", mark: "queue", to: urls.queues, needs: "view", key: "q" },
    ],
  },
  {
    title: "Agents",
    entries: [
      { id: "runs", title: "Runs", mark: "run", to: urls.runs, needs: "view", key: "r" },
      { id: "agents", title: "Agents", mark: "agent", to: urls.agents, needs: "view", key: "n" },
    ],
  },
  {
    title: "Models",
    entries: [
      { id: "models", title: "Models", mark: "model", to: urls.models, needs: "view", key: "l" },
      { id: "calls", title: "Model calls", mark: "call", to: urls.calls, needs: "view", key: "c" },
      { id: "spend", title: "Spend", mark: "spend", to: urls.spend, needs: "view", key: "d" },
    ],
  },
  {
    title: "Guard",
    entries: [
      { id: "suppressions", title: "Suppressions", mark: "suppressed", to: urls.suppressions, needs: "view", key: "u" },
      { id: "approvals", title: "Approvals", mark: "approval", to: urls.approvals, needs: "view", key: "a" },
      { id: "secrets", title: "Secrets", mark: "secret", to: urls.secrets, needs: "author" },
    ],
  },
  {
    title: "Admin",
    entries: [
      { id: "packs", title: "Packs", mark: "pack", to: urls.packs, needs: "view" },
      { id: "people", title: "People", mark: "person", to: urls.people, needs: "admin" },
      { id: "audit", title: "Audit", mark: "audit", to: urls.audit, needs: "admin" },
      { id: "health", title: "Health", mark: "health", to: urls.health, needs: "view", key: "i" },
    ],
  },
];
