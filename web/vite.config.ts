import { defineConfig } from "vite";

// The bundle is committed, so the same sources have to give the same bytes on every machine.
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
    license: { fileName: "assets/licenses.md" },
    reportCompressedSize: false,
  },
  // `npm run dev` beside `monoceros serve --demo`.
  server: { proxy: { "/ws": "http://127.0.0.1:9080", "/debug": "http://127.0.0.1:9080" } },
});
