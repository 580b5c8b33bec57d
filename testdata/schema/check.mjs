// Holds the schema of scaling.yaml against the validators that people use: ajv, in
// its strict mode, and the YAML language server, which editors run.
import {readFileSync} from 'node:fs';
import Ajv from 'ajv';
import {parse} from 'yaml';
import {getLanguageService} from 'yaml-language-server';
import {TextDocument} from 'vscode-languageserver-textdocument';

const read = name => JSON.parse(readFileSync(new URL(`testdata/${name}`, import.meta.url), 'utf8'));
const schema = read('scaling.json');
const policies = read('policies.json');
let failures = 0;
const fail = text => { failures++; console.error(text); };

const validate = new Ajv({strict: true, strictRequired: false, allErrors: true}).compile(schema);
const service = getLanguageService({
  schemaRequestService: async uri => { if (uri !== 'file:///scaling.json') throw new Error(`asked for ${uri}`); return JSON.stringify(schema); },
  workspaceContext: {resolveRelativePath: (path, from) => new URL(path, from).toString()},
});
service.configure({validate: true, customTags: [], yamlVersion: '1.2', schemas: []});

for (const [i, {yaml, refused}] of policies.entries()) {
  const byAjv = !validate(parse(yaml));
  if (byAjv !== Boolean(refused)) fail(`ajv ${byAjv ? 'refuses' : 'accepts'}:\n${yaml}${JSON.stringify(validate.errors)}`);

  const text = `# yaml-language-server: $schema=file:///scaling.json\n${yaml}`;
  const document = TextDocument.create(`file:///policy${i}.yaml`, 'yaml', 0, text);
  const found = await service.doValidation(document, false);
  if ((found.length > 0) !== Boolean(refused)) fail(`the language server finds ${found.map(d => d.message).join('; ') || 'nothing'}:\n${yaml}`);
}
console.log(`${policies.length} policies, ${policies.filter(p => p.refused).length} of them invalid, by ajv and the YAML language server: ${failures} differences`);
process.exit(failures ? 1 : 0);
