/** Addresses of the two workers, put in by build.mjs. */
declare const STREAM_WORKER: string;
declare const LAYOUT_WORKER: string;

declare module "*.css";

interface TrustedScriptURL {
  readonly __trusted: "script-url";
}
interface TrustedTypePolicy {
  createScriptURL(url: string): TrustedScriptURL;
}
interface Window {
  trustedTypes?: {
    createPolicy(name: string, rules: { createScriptURL(url: string): string }): TrustedTypePolicy;
  };
}
