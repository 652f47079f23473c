// SPDX-License-Identifier: Apache-2.0

package httpapi

import "time"

const (
	exampleIntegrationID = "019a52d4-51b8-7e40-93aa-6d0f2c81e007"
	exampleConnectionID  = "019a52d5-0c3e-7a19-b7d4-18e95f36a008"
	exampleSessionID     = "019a52d5-0c3e-7f02-8e61-c4a7903bd009"
	exampleSending       = "instantly"
)

// exampleSendingKey shows where a credential goes; it is none.
const exampleSendingKey = "<PROVIDER_API_KEY>"

var exampleCreate = createIntegration{Provider: exampleSending, Name: "Outbound", APIKey: exampleSendingKey}

var exampleWorkspaces = []workspace{{ID: "65f31c0a9b2e4d7781aa0c11", Name: "Outbound"}, {ID: "65f31c0a9b2e4d7781aa0c12", Name: "Newsletters"}}

var exampleIntegration = IntegrationEntry{ID: exampleIntegrationID, Provider: exampleSending, Name: "Outbound",
	ProviderWorkspaceID: ptr("3f0a8f62-7a55-4b52-9a46-1f4f0d4c8e10"), ProviderWorkspaceName: ptr("Contoso"), Status: "connected",
	LastTestedAt: exampleTime, CreatedAt: exampleTime, UpdatedAt: exampleTime,
	Capabilities: platformCapabilities{MicrosoftOAuth: true, MailboxRefresh: true, MailboxDisconnect: true}}

var exampleIntegrationList = integrationList{Integrations: []IntegrationEntry{exampleIntegration}, Count: 1}

var exampleIntegrationDetail = integrationDetail{IntegrationEntry: exampleIntegration,
	MailboxConnections: connectionCounts{Total: 3, Connected: 2, Pending: 1}}

var exampleTested = testedIntegration{Status: "connected", IntegrationID: exampleIntegrationID, Provider: exampleSending,
	Message: "The platform takes the credential.", TestedAt: exampleTime}

var exampleEligible = eligibleList{IntegrationID: exampleIntegrationID, Count: 1, Mailboxes: []eligibleMailbox{{
	MailboxID: exampleMailboxID, TenantID: exampleTenantID, TenantName: "Contoso", DomainName: exampleDomain, DisplayName: "Ana Lima",
	PrimarySMTP: exampleAddress, AccountEnabled: true, Managed: true, Connection: perhaps[mailboxConnection]{&mailboxConnection{ID: exampleConnectionID,
		Status: "connected", ProviderAccountID: ptr(exampleAddress), ProviderAccountEmail: ptr(exampleAddress), ConnectedAt: ptr(exampleTime),
		UpdatedAt: exampleTime}},
}}}

var exampleSignIn = begunSession{Status: "pending", IntegrationID: exampleIntegrationID, Provider: exampleSending, MailboxID: exampleMailboxID,
	Mailbox: exampleAddress, SessionID: exampleSessionID,
	AuthURL:   "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?client_id=65ad96b6&state=c2lnbmVk",
	ExpiresAt: exampleTime.Add(10 * time.Minute)}

var exampleSession = sessionState{Status: "connected", IntegrationID: exampleIntegrationID, MailboxID: exampleMailboxID,
	SessionID: exampleSessionID, ProviderAccountID: ptr(exampleAddress), ProviderAccountName: ptr("Ana Lima"),
	ConnectedAt: ptr(exampleTime.Add(time.Minute)), ExpiresAt: exampleTime.Add(10 * time.Minute)}

var exampleRefreshed = refreshedMailboxes{IntegrationID: exampleIntegrationID, Provider: exampleSending, Checked: 3, Connected: 3,
	NewlyConnected: 1, Unchanged: 2, Status: "completed"}

var exampleDisconnected = disconnectedMailbox{Status: "disconnected", IntegrationID: exampleIntegrationID, MailboxID: exampleMailboxID,
	Message: "The mailbox was taken out of the sending platform."}

var exampleGone = deletedIntegration{Status: "deleted", IntegrationID: exampleIntegrationID,
	Message: "The credential and the connections of the integration were removed. The sending platform was not called: what is connected there stays."}
