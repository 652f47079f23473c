// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/core/webhook"
)

// These values occur in several examples of the OpenAPI document.
const (
	exampleTenantID      = "5d1a8f6c-2f43-4a7b-9d10-6c0f3b7e9a21"
	exampleResourceID    = "019a52c0-7a10-7c3e-8b55-0d6a41c0f001"
	exampleDomainID      = "019a52c1-1b20-7f60-9c77-2f4be8a0d002"
	exampleMailboxID     = "019a52c4-90c8-7d11-8a3f-71b6f2e4c003"
	exampleSyncRunID     = "019a52c5-33d4-7aa2-b0c6-5e9d18f7b004"
	exampleDomain        = "example.com"
	exampleBuiltinDomain = "contoso.onmicrosoft.com"
	exampleAddress       = "ana@example.com"
	exampleSPF           = "v=spf1 include:spf.protection.outlook.com -all"
	exampleMX            = "example-com.mail.protection.outlook.com"
)

var exampleTime = time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)

func pointerTo[T any](v T) *T { return &v }

const exampleConnectSessionID = "019a52c0-7a10-7c3e-8b55-0d6a41c0f011"

var exampleConnectURL = connectURL{
	ID:         exampleConnectSessionID,
	ConnectURL: "https://login.microsoftonline.com/organizations/v2.0/adminconsent?client_id=1f0e6c2b&state=c2lnbmVk",
	ExpiresAt:  exampleTime.Add(15 * time.Minute),
}

var exampleConnectSession = connectSession{Status: "connected", TenantID: pointerTo(exampleTenantID), ExpiresAt: exampleTime.Add(15 * time.Minute)}

var exampleTenantList = tenantList{Count: 1, Tenants: []tenantSummary{{
	ID: exampleResourceID, TenantID: exampleTenantID, TenantName: "Contoso", TenantDomain: exampleBuiltinDomain, DefaultDomain: exampleDomain,
	DomainCount: 1, MailboxCount: 3, DiscoveryCompleted: true, ExchangeBootstrapStatus: "ready",
	ConsentedAt: &exampleTime, LastSyncAt: &exampleTime,
}}}

var exampleTenantDetail = tenantDetail{
	ID: exampleResourceID, TenantID: exampleTenantID, TenantName: "Contoso", TenantDomain: exampleBuiltinDomain, DefaultDomain: exampleBuiltinDomain,
	DomainCount: 1, DiscoveryCompleted: true, ExchangeBootstrapStatus: "ready", SMTPAuthOrgEnabled: true,
	ConsentedAt: &exampleTime, LastSyncAt: &exampleTime, ConnectedBy: pointerTo("admin@" + exampleBuiltinDomain),
	Readiness: readiness{Consent: "granted", ExchangeBootstrap: "ready", SMTPAuth: "enabled", Discovery: "completed",
		DomainsTotal: 1, NextStep: pointerTo("verify_domain"), Headroom: nullable[headroom]{&headroom{
			ExternalRecipientLimit: 14259, SendsToday: 900, SendsTodayAt: &exampleTime, Remaining: 13359, UtilizationPct: 6.3, EmailLicenses: 25, EstimatedAt: exampleTime}}},
}

var exampleSynced = synced{
	Status: "completed", RunID: exampleSyncRunID, TenantID: exampleTenantID,
	Bootstrap: bootstrap{Status: "ready", Message: "the mail server is prepared"},
	SMTPAuth:  smtpAuth{Status: "enabled", Message: "authenticated SMTP is enabled for the tenant"},
	Result: discovered{Status: "completed", TenantName: "Contoso", DefaultDomain: exampleDomain, DomainCount: 1,
		UserMailboxCount: 2},
}

var exampleDeletedTenant = deletedTenant{Status: "deleted", TenantID: exampleTenantID, TenantName: "Contoso",
	Message: "The tenant, its domains, its mailboxes and its sync history were removed from the service. " +
		"The tenant at the mail platform was not changed."}

var exampleDomainList = domainList{TenantID: exampleTenantID, Count: 1, Domains: []domainEntry{{
	ID: exampleDomainID, DomainName: exampleDomain, IsDefault: true, IsVerified: true, SPFStatus: exampleSPF, DKIMStatus: dns.DKIMHealthy,
	DMARCStatus: dns.Missing, MXStatus: exampleMX + ".", LastChecked: &exampleTime,
}}}

var exampleAddDomain = addDomain{Domain: exampleDomain}

var (
	exampleVerificationRecords = []dnsRecord{{dns.Record{Type: dns.TXT, Name: exampleDomain, Content: "MS=ms40718263", TTL: 3600}}}
	exampleSigningRecords      = []dnsRecord{
		{dns.Record{Type: dns.CNAME, Name: "selector1._domainkey", Content: "selector1-example-com._domainkey.contoso.n-v1.dkim.mail.microsoft", TTL: 3600}},
		{dns.Record{Type: dns.CNAME, Name: "selector2._domainkey", Content: "selector2-example-com._domainkey.contoso.n-v1.dkim.mail.microsoft", TTL: 3600}},
	}
	exampleServiceRecords = append([]dnsRecord{
		{dns.Record{Type: dns.MX, Name: exampleDomain, Content: exampleMX, TTL: 3600}},
		{dns.Record{Type: dns.TXT, Name: exampleDomain, Content: exampleSPF, TTL: 3600}},
	}, exampleSigningRecords...)
)

var exampleAddedDomain = addedDomain{
	Status: "added", TenantID: exampleTenantID, Domain: domainState{DomainName: exampleDomain},
	VerificationDNSRecords: exampleVerificationRecords, ServiceConfigurationRecords: []dnsRecord{},
	LiveDNSStatus:         liveStatus{SPFStatus: dns.Missing, DKIMStatus: dns.Missing, DMARCStatus: dns.Missing, MXStatus: dns.Missing},
	DKIMVerificationState: dkimSentence{Status: "pending", Message: "verify the domain first; the mail platform makes the DKIM records after that"},
}

var exampleRemovedDomain = removedDomain{Status: "removed", TenantID: exampleTenantID, DomainName: exampleDomain, FromPlatform: true,
	Message: "The domain was removed from the service and from the tenant at the mail platform. Its DNS records were not changed."}

var exampleRemovedMailbox = removedMailbox{Status: "removed", TenantID: exampleTenantID, MailboxID: exampleMailboxID, PrimarySMTP: exampleAddress,
	RestorableUntil: exampleTime.AddDate(0, 0, 30),
	Message:         "The mailbox was removed. An administrator of the tenant can restore it among the deleted users of the mail platform for 30 days."}

var exampleLimitEnded = limitEnded{Status: "removed", TenantID: exampleTenantID, DailySendLimit: 15, DomainScope: pointerTo(exampleDomain), ScopeLabel: exampleDomain,
	MailboxesUnblocked: 1,
	Message:            "The limit is no longer enforced, and its mail flow rule was removed from the tenant. The mail platform can apply the old rule for up to 30 minutes."}

var exampleVerifiedDomain = verifiedDomain{Status: "verified", DomainName: exampleDomain, IsVerified: true,
	Message: "The domain is verified and ready for mailboxes."}

var exampleSignedDomain = signedDomain{Status: "enabled", DomainName: exampleDomain, DKIMStatus: "enabled",
	Message: "DKIM signing is enabled for the domain."}

var exampleDKIMReport = dkimReport{DomainName: exampleDomain, DKIMStatus: "pending",
	Selectors: selectors{Selector1: "propagated", Selector2: "missing"}, LastChecked: exampleTime}

var exampleDNSStatus = dnsStatus{SPF: exampleSPF, DKIM: dns.DKIMHealthy, DMARC: dns.Missing, MX: exampleMX + "."}

var exampleTenantDNS = tenantDNS{TenantID: exampleTenantID, DomainName: exampleDomain, IsDefault: true, IsVerified: true, DNSStatus: exampleDNSStatus,
	VerificationDNSRecords: exampleVerificationRecords, ServiceConfigurationRecords: exampleServiceRecords, LastChecked: &exampleTime}

var exampleStoredDNS = storedDNS{DomainID: exampleDomainID, TenantResourceID: exampleResourceID, TenantID: exampleTenantID,
	DomainName: exampleDomain, IsDefault: true, IsVerified: true, DKIMEnabled: true, DNSStatus: exampleDNSStatus,
	VerificationDNSRecords: exampleVerificationRecords, ServiceConfigurationRecords: exampleServiceRecords, DKIMDNSRecords: exampleSigningRecords,
	LastChecked: &exampleTime}

// examplePlanItems contains a conflict, which blocks the plan, and an update.
var examplePlanItems = []dns.Item{
	{Action: dns.Conflict, Type: dns.MX, Name: exampleDomain, Desired: "0 " + exampleMX,
		Observed: []string{"1 aspmx.l.google.com"}, Reason: dns.ReasonMXOther, Blocking: true},
	{Action: dns.Update, Type: dns.TXT, Name: exampleDomain, Desired: "v=spf1 ip4:192.0.2.7 include:spf.protection.outlook.com ~all",
		Observed: []string{"v=spf1 ip4:192.0.2.7 ~all"}, Reason: dns.ReasonSPFMerged},
}

// exampleValues maps an error code to the fault.Error.Values that the example of this error shows.
var exampleValues = map[fault.Code]any{
	fault.DNSConflict:         examplePlanItems[:1],
	fault.PlusVibeWorkspace:   exampleWorkspaces,
	fault.SalesBlinkWorkspace: exampleWorkspaces,
	fault.EmailBisonWorkspace: exampleWorkspaces,
	fault.InsufficientScope:   access.TenantsWrite,
}

var examplePlan = dnsPlan{DomainID: exampleDomainID, DomainName: exampleDomain,
	DNSProvider: planProvider{ID: pointerTo("cloudflare"), Name: pointerTo("Cloudflare"), Nameservers: []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"},
		Detected: true, Supported: true},
	Read: planRead{Reliable: true, NameserversAsked: 2, NameserversAgreeing: 2},
	DesiredRecords: []desiredRecord{{Purpose: "mx", RecordType: "MX", Name: exampleDomain, Content: "0 " + exampleMX, TTL: 3600},
		{Purpose: "spf", RecordType: "TXT", Name: exampleDomain, Content: exampleSPF, TTL: 3600}},
	ObservedRecords: []observedRecord{{RecordType: "MX", Name: exampleDomain, Contents: []string{"1 aspmx.l.google.com"}, TTL: 300},
		{RecordType: "TXT", Name: exampleDomain, Contents: []string{"v=spf1 ip4:192.0.2.7 ~all"}, TTL: 300}},
	Actions: convertAll(examplePlanItems, refusal.ActionOf), BlockingChanges: convertAll(examplePlanItems[:1], refusal.ActionOf), CheckedAt: exampleTime}

var exampleAutomation = domainAutomation{DomainID: exampleDomainID, Automation: automation{Provider: pointerTo("cloudflare"), ProviderSupported: true,
	ConnectionPresent: true, ManualActionRequired: true, ActionRequiredCode: pointerTo(string(dns.ConflictToResolve)),
	Message: "Resolve these conflicts first. MX at example.com: " + dns.ReasonMXOther.Explain()}}

var exampleMailboxList = mailboxList{TenantID: exampleTenantID, Count: 1, Mailboxes: []mailboxEntry{{
	ID: exampleMailboxID, DisplayName: "Ana Lima", PrimarySMTP: exampleAddress, UserPrincipalName: exampleAddress, MailNickname: "ana.example",
	AccountEnabled: true, CreatedAt: exampleTime, DomainName: exampleDomain, TenantName: "Contoso",
}}}

var exampleProvisionMailboxes = provisionMailboxes{Domain: exampleDomain, AccountPassword: "Correct-Horse-7",
	Mailboxes: []wantedMailbox{{Name: "Ana Lima", Email: exampleAddress}}}

var exampleProvisionedMailboxes = provisioned{CreatedCount: 1, Results: []provisionResult{{
	Status: "created", Name: "Ana Lima", Email: exampleAddress,
	Details: provisionDetails{DisplayName: "Ana Lima", PrimarySMTP: exampleAddress, UserPrincipalName: exampleAddress, Alias: "ana.example"},
}}}

var exampleUpdateMailbox = map[string]any{"display_name": "Ana Souza Lima", "daily_send_limit": 20}

var exampleUpdatedMailbox = updatedMailbox{Status: "updated", Mailbox: changedMailbox{ID: exampleMailboxID, DisplayName: "Ana Souza Lima",
	PrimarySMTP: exampleAddress, DailySendLimit: pointerTo(20), AccountEnabled: true}}

var exampleUsage = mailboxUsage{MailboxID: exampleMailboxID, PrimarySMTP: exampleAddress, DisplayName: "Ana Lima", AccountEnabled: true,
	DailySendLimit: pointerTo(20), SendsToday: 5, SendsTodayAt: &exampleTime, RemainingSends: pointerTo(15), UtilizationPct: pointerTo(25.0)}

// exampleKey shows the form of a key. It is not a valid key.
const exampleKey = "tny_live_<48 hexadecimal characters>"

const exampleKeyID = "019a52d0-04e1-7a6e-b1d3-5f2c80a4e00b"

var exampleKeyEntry = KeyEntry{ID: exampleKeyID, Name: "reporting", KeyHint: "9f0e", Scopes: []string{"domains:*", "tenants:read"}, TenantIDs: &[]string{exampleTenantID},
	AllowedCIDRs: &[]string{"192.0.2.0/24"}, CreatedAt: exampleTime, CreatedBy: pointerTo("019a52d0-04e1-7d0c-8b7a-2e6f41c9a00c"), ExpiresAt: pointerTo(exampleTime.AddDate(0, 3, 0))}

var exampleCreateKey = newKey{Name: "reporting", Scopes: []string{"domains:*", "tenants:read"}, TenantIDs: []string{exampleTenantID}, AllowedCIDRs: []string{"192.0.2.0/24"},
	ExpiresAt: exampleTime.AddDate(0, 3, 0).Format(time.RFC3339)}

var (
	exampleIssuedKey  = issuedKey{KeyEntry: exampleKeyEntry, APIKey: exampleKey}
	exampleRotateKey  = rotateKey{OverlapHours: pointerTo(24)}
	exampleRevokedKey = revokedKey{Status: "revoked", ID: exampleKeyID, RevokedAt: exampleTime}
	exampleKeyList    = keyPage{Keys: []KeyEntry{exampleKeyEntry}, NextCursor: pointerTo(page.Cursor(exampleKeyID).Encode(keyListName))}
)

var exampleMe = me{AccountID: "019a52d0-04e1-7f11-9c3b-7d4e52a1b00d", Plan: "api_growth", AutomaticDNS: true, TenantSlots: 50, TenantsHeld: 3,
	Key:    callerKey{ID: exampleKeyID, Name: "reporting", Scopes: []string{"domains:*", "tenants:read"}, TenantIDs: &[]string{exampleTenantID}},
	Limits: []bucketBalance{{Bucket: "read", Limit: 600, WindowSeconds: 60, Remaining: 599}},
	SendingProviders: []sendingProvider{{ID: "instantly", Name: "Instantly", Needs: []string{"api_key"},
		Capabilities: platformCapabilities{MicrosoftOAuth: true, MailboxRefresh: true, MailboxDisconnect: true}}},
	DNSProviders: []dnsProvider{{ID: "cloudflare", Name: "Cloudflare", Connected: true}}}

var exampleRotatedKey = rotatedKey{Status: "rotated", APIKey: exampleKey, KeyHint: "9f0e", RotatedAt: exampleTime}

const (
	exampleProvisioningID = "019a52d0-04e1-7b3d-a6f2-8c1e57d9f005"
	exampleJobID          = "019a52d0-04e1-7c85-9d41-3b7a60e2c006"
)

var exampleRun = provisioningRun{ID: exampleProvisioningID, Status: "queued", TotalDomains: 1, CreatedAt: exampleTime}

var exampleJob = provisioningJob{ID: exampleJobID, RunID: exampleProvisioningID, DomainID: exampleDomainID, TenantID: exampleTenantID,
	DomainName: exampleDomain, Stage: "queued", Status: "queued", Provider: pointerTo("cloudflare"), NextAttemptAt: exampleTime}

var exampleBegunRun = begunRun{DomainID: exampleDomainID, Run: exampleRun, Jobs: []provisioningJob{exampleJob}}

var (
	exampleRunningRun = provisioningRun{ID: exampleProvisioningID, Status: "running", TotalDomains: 1, CreatedAt: exampleTime,
		StartedAt: pointerTo(exampleTime.Add(time.Second)), UpdatedAt: pointerTo(exampleTime.Add(time.Minute))}
	exampleWaitingJob = provisioningJob{ID: exampleJobID, RunID: exampleProvisioningID, DomainID: exampleDomainID, TenantID: exampleTenantID,
		DomainName: exampleDomain, Stage: "dns_propagation", Status: "waiting", Provider: pointerTo("cloudflare"),
		Message:       pointerTo("The records are written. Waiting until all name servers of the domain return them."),
		NextAttemptAt: exampleTime.Add(2 * time.Minute)}
)

var exampleRunDetail = runDetail{Run: exampleRunningRun, Jobs: []provisioningJob{exampleWaitingJob}}

var exampleRunList = runList{Runs: []provisioningRun{exampleRunningRun}, Count: 1, Limit: defaultRunLimit}

var exampleRetriedJob = retriedJob{Status: "queued", Job: provisioningJob{ID: exampleJobID, RunID: exampleProvisioningID, DomainID: exampleDomainID,
	TenantID: exampleTenantID, DomainName: exampleDomain, Stage: "dns_propagation", Status: "queued", Provider: pointerTo("cloudflare"),
	NextAttemptAt: exampleTime}}

const (
	exampleIntegrationID   = "019a52d4-51b8-7e40-93aa-6d0f2c81e007"
	exampleConnectionID    = "019a52d5-0c3e-7a19-b7d4-18e95f36a008"
	exampleSessionID       = "019a52d5-0c3e-7f02-8e61-c4a7903bd009"
	exampleSendingProvider = "instantly"
)

const exampleSendingKey = "<PROVIDER_API_KEY>"

var exampleCreateIntegration = createIntegration{Provider: exampleSendingProvider, Name: "Outbound", APIKey: exampleSendingKey}

var exampleWorkspaces = []integration.Workspace{{ID: "65f31c0a9b2e4d7781aa0c11", Name: "Outbound"}, {ID: "65f31c0a9b2e4d7781aa0c12", Name: "Newsletters"}}

var exampleIntegration = IntegrationEntry{ID: exampleIntegrationID, Provider: exampleSendingProvider, Name: "Outbound",
	ProviderWorkspaceID: pointerTo("3f0a8f62-7a55-4b52-9a46-1f4f0d4c8e10"), ProviderWorkspaceName: pointerTo("Contoso"), Status: "connected",
	LastTestedAt: exampleTime, CreatedAt: exampleTime, UpdatedAt: exampleTime,
	Capabilities: platformCapabilities{MicrosoftOAuth: true, MailboxRefresh: true, MailboxDisconnect: true}}

var exampleIntegrationList = integrationList{Integrations: []IntegrationEntry{exampleIntegration}, Count: 1}

var exampleIntegrationDetail = integrationDetail{IntegrationEntry: exampleIntegration,
	MailboxConnections: connectionCounts{Total: 3, Connected: 2, Pending: 1}}

var exampleTestedIntegration = testedIntegration{Status: "connected", IntegrationID: exampleIntegrationID, Provider: exampleSendingProvider,
	Message: "The sending platform accepts the credential.", TestedAt: exampleTime}

var exampleEligibleList = eligibleList{IntegrationID: exampleIntegrationID, Count: 1, Mailboxes: []eligibleMailbox{{
	MailboxID: exampleMailboxID, TenantID: exampleTenantID, TenantName: "Contoso", DomainName: exampleDomain, DisplayName: "Ana Lima",
	PrimarySMTP: exampleAddress, AccountEnabled: true, Managed: true, Connection: nullable[mailboxConnection]{&mailboxConnection{ID: exampleConnectionID,
		Status: "connected", ProviderAccountID: pointerTo(exampleAddress), ProviderAccountEmail: pointerTo(exampleAddress), ConnectedAt: pointerTo(exampleTime),
		UpdatedAt: exampleTime}},
}}}

var exampleBegunSession = begunSession{Status: "pending", IntegrationID: exampleIntegrationID, Provider: exampleSendingProvider, MailboxID: exampleMailboxID,
	Mailbox: exampleAddress, SessionID: exampleSessionID,
	AuthURL:   "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?client_id=65ad96b6&state=c2lnbmVk",
	ExpiresAt: exampleTime.Add(10 * time.Minute)}

var exampleSession = sessionState{Status: "connected", IntegrationID: exampleIntegrationID, MailboxID: exampleMailboxID,
	SessionID: exampleSessionID, ProviderAccountID: pointerTo(exampleAddress), ProviderAccountName: pointerTo("Ana Lima"),
	ConnectedAt: pointerTo(exampleTime.Add(time.Minute)), ExpiresAt: exampleTime.Add(10 * time.Minute)}

var exampleRefreshedMailboxes = refreshedMailboxes{IntegrationID: exampleIntegrationID, Provider: exampleSendingProvider, Checked: 3, Connected: 3,
	NewlyConnected: 1, Unchanged: 2, Status: "completed"}

var exampleDisconnectedMailbox = disconnectedMailbox{Status: "disconnected", IntegrationID: exampleIntegrationID, MailboxID: exampleMailboxID,
	Message: "The mailbox was removed from the sending platform."}

var exampleDeletedIntegration = deletedIntegration{Status: "deleted", IntegrationID: exampleIntegrationID,
	Message: "The credential and the connections of the integration were removed. The sending platform was not called: accounts that are connected there stay connected."}

const (
	exampleWebhookID  = "019a52d8-2c11-7d05-8f47-9be3a6d1c00a"
	exampleDeliveryID = "019a52d9-7e30-7b6c-a1d2-05f8c94eb00b"
	exampleEventID    = "019a52d9-7e2f-7a44-9c3b-6d17e20fa00c"
)

var (
	exampleWebhookCursor  = page.Cursor(exampleWebhookID).Encode(webhookListName)
	exampleDeliveryCursor = page.Cursor(exampleDeliveryID).Encode(deliveryListName)
)

var exampleCreateWebhook = createWebhook{URL: "https://hooks.example.com/tenantry", EventTypes: []string{"domain.verified", "mailbox.blocked"},
	Description: pointerTo("Alerts")}

var exampleWebhook = WebhookEntry{ID: exampleWebhookID, URL: "https://hooks.example.com/tenantry", EventTypes: []string{"domain.verified", "mailbox.blocked"},
	Description: pointerTo("Alerts"), Status: "enabled", CreatedAt: exampleTime}

// exampleWebhookSecret shows the form of a secret. It is not a valid secret.
const exampleWebhookSecret = "whsec_<32 bytes in base64>"

var exampleWebhookWithSecret = webhookWithSecret{WebhookEntry: exampleWebhook, Secret: exampleWebhookSecret}

var exampleWebhookList = webhookList{Webhooks: []WebhookEntry{exampleWebhook}}

var exampleUpdateWebhook = map[string]any{"event_types": []string{"domain.verified", "mailbox.blocked"}, "status": "enabled"}

var exampleDeletedWebhook = deletedWebhookOf(webhook.Webhook{ID: exampleWebhookID})

var exampleRotateWebhook = rotateWebhook{OverlapHours: pointerTo(24)}

var exampleRotatedWebhook = rotatedWebhook{WebhookEntry: exampleWebhook, Secret: exampleWebhookSecret,
	PreviousSecretExpiresAt: pointerTo(exampleTime.Add(24 * time.Hour))}

var exampleTestedWebhook = testedWebhook{Status: "delivered", StatusCode: pointerTo(204), DurationMS: 85}

var exampleDelivery = delivery{ID: exampleDeliveryID, EventID: exampleEventID, EventType: "domain.verified", Status: "pending",
	Attempts:      []deliveryAttempt{{At: exampleTime, StatusCode: pointerTo(503), Error: pointerTo("the endpoint answered 503"), DurationMS: 120}},
	NextAttemptAt: pointerTo(exampleTime.Add(5 * time.Second))}

var exampleDeliveryList = deliveryList{Deliveries: []delivery{exampleDelivery}, NextCursor: &exampleDeliveryCursor}

var exampleReplayWebhook = replayWebhook{After: "2026-03-01T00:00:00Z"}

var exampleReplayedWebhook = replayedWebhook{Status: "queued", ID: exampleWebhookID}
