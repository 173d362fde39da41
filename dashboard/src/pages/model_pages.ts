// The pages of language models, of their calls and of what they cost: one chunk.

export { CallPage } from "./call.tsx";
export { CallsPage } from "./calls.tsx";
export { ExecutionCalls } from "./execution_calls.tsx";
export { ModelPage } from "./model.tsx";
export { NewModelPage } from "./model_form.tsx";
export { ModelsPage } from "./model_list.tsx";
export { SpendPage } from "./spend.tsx";
