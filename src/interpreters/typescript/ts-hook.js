// SPDX-License-Identifier: Apache-2.0
// For Node without a transform of its own: TypeScript through the compiler of the typescript package.
'use strict';
const fs = require('fs'), path = require('path');
const places = ['/app/node_modules', '/usr/share/nodejs', '/usr/local/lib/node_modules', '/usr/lib/node_modules'];
const place = places.find((p) => fs.existsSync(p + '/typescript/package.json'));
if (!place) {
	console.error('cordon: nothing in this image can transpile TypeScript; apt-get install esbuild');
	process.exit(127);
}
const ts = require(place + '/typescript');
const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022,
	esModuleInterop: true, inlineSourceMap: true, jsx: ts.JsxEmit.React };
const host = { getCurrentDirectory: () => path.dirname(process.argv[1]), getCanonicalFileName: (f) => f,
	getNewLine: () => '\n' };
for (const extension of ['.ts', '.tsx', '.cts', '.mts'])
	require.extensions[extension] = (module, fileName) => {
		const code = fs.readFileSync(fileName, 'utf8');
		const out = ts.transpileModule(code, { fileName, compilerOptions, reportDiagnostics: true });
		if (out.diagnostics.length) {
			console.error(ts.formatDiagnostics(out.diagnostics, host).trimEnd());
			process.exit(1);
		}
		module._compile(out.outputText, fileName);
	};
