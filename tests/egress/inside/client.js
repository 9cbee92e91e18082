// SPDX-License-Identifier: Apache-2.0
// client.js fetch|https URL
const https = require('https')
const [how, url] = process.argv.slice(2)
if (how === 'fetch') fetch(url).then((r) => r.text()).then((t) => console.log(t.trim()))
else https.get(url, (r) => r.on('data', (d) => process.stdout.write(d)))
