// SPDX-License-Identifier: Apache-2.0

// Runs the main workflow against `tenantry dev` with the types that .ci/clients/make
// generated. Code that does not match the document does not compile.
import { randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Schemas = components["schemas"];

const { TENANTRY_URL, TENANTRY_KEY, TENANTRY_CONTROL, TENANTRY_TENANT, TENANTRY_DOMAIN } = process.env;
if (!TENANTRY_URL || !TENANTRY_KEY || !TENANTRY_CONTROL || !TENANTRY_TENANT || !TENANTRY_DOMAIN) throw new Error("TENANTRY_… is missing");

const client = createClient<paths>({ baseUrl: TENANTRY_URL, headers: { Authorization: `Bearer ${TENANTRY_KEY}` } });
const path = { tenant_id: TENANTRY_TENANT };
const write = () => ({ "Idempotency-Key": randomUUID() });

function expect(good: boolean, what: string, got: unknown): asserts good {
  if (!good) throw new Error(`${what}: unexpected ${JSON.stringify(got)}`);
}

// control calls the control interface of the sandbox, which acts as the administrator and
// the registrar.
async function control(method: string, where: string, body: unknown): Promise<void> {
  const answer = await fetch(TENANTRY_CONTROL + where, { method, body: JSON.stringify(body) });
  expect(answer.ok, where, answer.status);
}

async function connect(): Promise<void> {
  const link = await client.GET("/v1/tenants/connect-url");
  expect(link.data !== undefined && Date.parse(link.data.expires_at) > Date.now(), "connect-url", link);
  await control("POST", `/tenants/${path.tenant_id}/consent`, { api_key: TENANTRY_KEY });
  const synced = await client.POST("/v1/tenants/{tenant_id}/sync", { params: { path, header: write() } });
  expect(synced.data?.status === "completed", "sync", synced);
}

async function list(): Promise<void> {
  const { data } = await client.GET("/v1/tenants");
  const tenant: Schemas["TenantSummary"] | undefined = data?.tenants[0];
  expect(data?.count === 1 && tenant?.tenant_id === path.tenant_id && tenant.consented_at !== null, "tenants", data);
}

async function addDomain(domain: string): Promise<void> {
  const added = await client.POST("/v1/tenants/{tenant_id}/domains", { params: { path, header: write() }, body: { domain } });
  expect(added.data?.status === "added", "add domain", added);
  const zone = added.data.verification_dns_records
    .flatMap((r) => (r.recordType === "domainDnsTxtRecord" ? [{ type: "TXT", name: r.label, content: r.text, ttl: r.ttl }] : []));
  expect(zone.length === 1, "verification records", added.data);
  await control("PUT", `/zones/${domain}/records`, zone);
  const verified = await client.POST("/v1/tenants/{tenant_id}/domains/{domain_name}/verify", {
    params: { path: { ...path, domain_name: domain }, header: write() },
  });
  expect(verified.data?.is_verified === true, "verify", verified);
}

async function provision(domain: string): Promise<void> {
  const made = await client.POST("/v1/tenants/{tenant_id}/mailboxes", {
    params: { path, header: write() },
    body: { domain, account_password: "Correct-Horse-7", mailboxes: [{ name: "Ada King", email: `ada@${domain}` }] },
  });
  expect(made.data?.created_count === 1 && made.data.results[0]?.status === "created", "provision", made);
  const mailboxes = await client.GET("/v1/tenants/{tenant_id}/mailboxes", { params: { path } });
  expect(mailboxes.data?.count === 1 && mailboxes.data.mailboxes[0]?.daily_send_limit === null, "mailboxes", mailboxes);
}

// refusals checks that errors have types too. An error code that the document does not list
// for the operation would not compile.
async function refusals(): Promise<void> {
  const missing = await client.GET("/v1/tenants/{tenant_id}", { params: { path: { tenant_id: randomUUID() } } });
  expect(missing.error?.code === "tenant_not_found" && missing.error.request_id !== "", "an unknown tenant", missing);
  const refused = await client.POST("/v1/tenants/{tenant_id}/domains", { params: { path, header: write() }, body: { domain: "com" } });
  expect(refused.error?.code === "invalid_domain", "an invalid domain", refused);
}

await connect();
await list();
await addDomain(TENANTRY_DOMAIN);
await provision(TENANTRY_DOMAIN);
await refusals();
