// The pages of functions, triggers and the map.

export { FunctionPage, NewFunctionPage } from "./function.tsx";
export { FunctionsPage } from "./functions.tsx";
export { MapPage } from "./map.tsx";
export { NewTriggerPage, TriggerPage } from "./trigger.tsx";
export { TriggersPage } from "./triggers.tsx";
export { DiffPage, VersionPage } from "./version.tsx";
