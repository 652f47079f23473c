// SPDX-License-Identifier: Apache-2.0

package httpapi

import "time"

const (
	exampleProvisioningID = "019a52d0-04e1-7b3d-a6f2-8c1e57d9f005"
	exampleJobID          = "019a52d0-04e1-7c85-9d41-3b7a60e2c006"
)

var exampleRun = provisioningRun{ID: exampleProvisioningID, Status: "queued", TotalDomains: 1, CreatedAt: exampleTime}

var exampleJob = provisioningJob{ID: exampleJobID, RunID: exampleProvisioningID, DomainID: exampleDomainID, TenantID: exampleTenantID,
	DomainName: exampleDomain, Stage: "queued", Status: "queued", Provider: ptr("cloudflare"), NextAttemptAt: exampleTime}

var exampleBegun = begunRun{DomainID: exampleDomainID, Run: exampleRun, Jobs: []provisioningJob{exampleJob}}

var (
	exampleRunning = provisioningRun{ID: exampleProvisioningID, Status: "running", TotalDomains: 1, CreatedAt: exampleTime,
		StartedAt: ptr(exampleTime.Add(time.Second)), UpdatedAt: ptr(exampleTime.Add(time.Minute))}
	exampleWaiting = provisioningJob{ID: exampleJobID, RunID: exampleProvisioningID, DomainID: exampleDomainID, TenantID: exampleTenantID,
		DomainName: exampleDomain, Stage: "dns_propagation", Status: "waiting", Provider: ptr("cloudflare"),
		Message:       ptr("The records are written. Waiting for all name servers of the domain to show them."),
		NextAttemptAt: exampleTime.Add(2 * time.Minute)}
)

var exampleRunDetail = runDetail{Run: exampleRunning, Jobs: []provisioningJob{exampleWaiting}}

var exampleRunList = runList{Runs: []provisioningRun{exampleRunning}, Count: 1, Limit: usualRuns}

var exampleRetried = retriedJob{Status: "queued", Job: provisioningJob{ID: exampleJobID, RunID: exampleProvisioningID, DomainID: exampleDomainID,
	TenantID: exampleTenantID, DomainName: exampleDomain, Stage: "dns_propagation", Status: "queued", Provider: ptr("cloudflare"),
	NextAttemptAt: exampleTime}}
