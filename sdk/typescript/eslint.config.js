// The rules of the linter for the package itself: those that need types, because a promise that nobody awaits hides an
// error.

import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["**/*", "!src", "!src/**/*.ts", "src/types.ts", "src/wire.ts"] },
  ...tseslint.configs.recommendedTypeChecked,
  { languageOptions: { parserOptions: { project: "tsconfig.json" } } },
);
