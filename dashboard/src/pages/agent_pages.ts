// The pages of language models, of agents and of their runs.

export { AgentPage } from "./agent.tsx";
export { AgentsPage } from "./agent_list.tsx";
export { CallPage } from "./call.tsx";
export { CallsPage } from "./calls.tsx";
export { ExecutionCalls } from "./execution_calls.tsx";
export { ModelPage } from "./model.tsx";
export { NewModelPage } from "./model_form.tsx";
export { ModelsPage } from "./model_list.tsx";
export { RunPage } from "./run.tsx";
export { RunsPage } from "./run_list.tsx";
export { SpendPage } from "./spend.tsx";
