// The pages of agents and of their runs: one chunk.

export { AgentPage } from "./agent.tsx";
export { AgentsPage } from "./agent_list.tsx";
export { RunPage } from "./run.tsx";
export { RunsPage } from "./run_list.tsx";
