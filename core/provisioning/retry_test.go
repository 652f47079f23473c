// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
)

// stoppedBy is a job that came some way and stopped with a code.
func stoppedBy(t *testing.T, code dns.ActionRequired, way []string) Job {
	j, _ := Begin(sees(t, fresh(), way...), start)
	j.Status, j.Required, j.Message, j.Moves, j.Attempt, j.Faults, j.Epoch = ActionRequired, code, "words", 2, 9, 3, 7
	j.Away, j.AwaySince, j.UnreliableSince, j.SeenAt, j.PublishedAt, j.NegativeTTL = time.Hour, start, start, start, start, time.Minute
	return j
}

func TestRetryResumesWhereItStopped(t *testing.T) {
	later := start.Add(1000 * time.Hour)
	for _, tt := range []struct {
		code  dns.ActionRequired
		way   []string
		stage Stage
		next  Step
	}{
		{dns.ConnectionRequired, nil, StagePlan, Plan},
		{dns.ProviderUnsupported, nil, StagePlan, Plan},
		{dns.ReadUnreliable, nil, StagePlan, Plan},
		{dns.ConnectionRequired, toApply, StagePlan, Plan},
		{dns.CredentialNotAccepted, toApply, StagePlan, Plan},
		{ZoneChanged, toApply, StagePlan, Plan},
		{dns.ConflictToSettle, toApply, StagePlan, Plan},
		{PropagationTimeout, toApply, StagePlan, Plan},
		{PropagationTimeout, toRead, StagePropagation, ReadDNS},
		{dns.ConflictToSettle, toRead, StagePlan, Plan},
		{TenantAccessLost, toRead, StagePropagation, ReadDNS},
		{DomainUnavailable, toVerify, StageDomainVerification, Verify},
		{VerificationTimeout, toVerify, StageDomainVerification, Verify},
		{dns.ConflictToSettle, toVerify, StagePlan, Plan},
		{TenantAccessLost, toMail, StageDomainVerification, EnableMail},
		{VerificationTimeout, toMail, StageDomainVerification, EnableMail},
		{DKIMTimeout, toSigning, StageDKIMPublication, EnsureSigning},
		{dns.ConnectionRequired, toDKIMPlan, StageDKIMPublication, Plan},
		{DKIMTimeout, toDKIMApply, StageDKIMPublication, Plan},
		{ZoneChanged, toDKIMApply, StageDKIMPublication, Plan},
		{DKIMTimeout, toDKIMRead, StageDKIMPublication, ReadDNS},
		{DKIMTimeout, toEnable, StageDKIMEnablement, EnableDKIM},
		{dns.ConflictToSettle, toEnable, StageDKIMPublication, Plan},
		{TenantAccessLost, toValidate, StageHealth, Validate},
		{dns.ReadUnreliable, toValidate, StageHealth, Validate},
		{dns.ConflictToSettle, toValidate, StageHealth, Validate},
		{ZoneChanged, toValidate, StageHealth, Validate},
		{DKIMTimeout, toValidate, StageDKIMEnablement, EnableDKIM},
	} {
		before := stoppedBy(t, tt.code, tt.way)
		got, err := Retry(before, later)
		if err != nil || got.Stage != tt.stage || got.Next != tt.next {
			t.Errorf("%s at %s: %s, %q, %v", tt.code, before.Next, got.Stage, got.Next, err)
		}
		if got.Status != Queued || got.Required != "" || got.Message != "" || got.Epoch != 8 || !got.NextAttemptAt.Equal(later) ||
			got.Progress != (Progress{Since: later, PublishedAt: start, NegativeTTL: time.Minute}) {
			t.Errorf("%s at %s leaves %+v", tt.code, before.Next, got)
		}
	}
}

// A job that waits does at once what it waits to do, and gets no more time.
func TestRetryOfOneThatWaits(t *testing.T) {
	later := start.Add(40 * time.Hour)
	before := sees(t, fresh(), append(toRead[:2:2], "not shown", "not shown")...)
	got, err := Retry(before, later)
	if err != nil || got.Stage != StagePropagation || got.Next != ReadDNS || got.Status != Queued || got.Epoch != before.Epoch+1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if !got.Since.Equal(before.Since) || got.Attempt != 0 || !got.NextAttemptAt.Equal(later) || got.Message != "" || !got.UpdatedAt.Equal(later) {
		t.Fatalf("got %+v", got)
	}
}

func TestRetryRefusesTheOthers(t *testing.T) {
	for _, s := range []Status{Queued, Running, Completed, Failed} {
		j := fresh()
		j.Status = s
		if got, err := Retry(j, start); !errors.Is(err, fault.JobNotRetryable) || got != j {
			t.Errorf("%s: %v, %+v", s, err, got)
		}
	}
}
