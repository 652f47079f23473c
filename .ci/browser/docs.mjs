// SPDX-License-Identifier: Apache-2.0
// Checks the pages about the API, which must work without internet access. task.schemes
// and task.viewports contain the indexes of the variants to check.
import { narrow, open, wide } from './look.mjs';

export async function docsPages(browser, task, look, findings) {
  const schemes = [['light', narrow], ['dark', narrow], ['light', wide]];
  for (const [scheme, viewport] of task.schemes.map((i) => schemes[i])) {
    const page = await open(browser, { viewport, colorScheme: scheme, bypassCSP: true });
    watch(page, task, findings);
    for (const path of ['/docs/errors', ...task.codes.map((code) => `/docs/errors/${code}`)]) {
      await page.goto(task.api + path);
      await look(page, `${scheme}-${viewport.width}${path.replaceAll('/', '-')}`);
    }
    await page.context().close();
  }
  for (const viewport of task.viewports.map((i) => [wide, narrow][i])) await apiPage(browser, task, viewport, look, findings);
}

// apiPage checks the API page under its own policy, so bypassCSP is not set.
async function apiPage(browser, task, viewport, look, findings) {
  const name = `api-${viewport.width}`;
  const page = await open(browser, { viewport });
  watch(page, task, findings);
  await page.goto(`${task.api}/docs`);
  await page.waitForSelector('.opblock');
  const shown = await page.locator('.opblock').count();
  if (shown !== task.operations) findings.push(`${name}: shows ${shown} operations and webhooks of ${task.operations}`);
  await page.locator('.opblock button.opblock-summary-control').first().press('Enter');
  await page.waitForSelector('.opblock-body .responses-wrapper');
  await look(page, name, false);
  await page.context().close();
}

// watch records console errors, exceptions, and requests to other hosts.
function watch(page, task, findings) {
  page.on('console', (m) => { if (m.type() === 'error') findings.push(`${page.url()}: console: ${m.text()}`); });
  page.on('pageerror', (e) => findings.push(`${page.url()}: ${e.message}`));
  page.on('request', (r) => {
    const url = new URL(r.url());
    if (url.origin !== new URL(task.api).origin && url.protocol !== 'data:') findings.push(`${page.url()}: requests ${r.url()}`);
  });
}
