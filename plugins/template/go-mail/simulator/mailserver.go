// SPDX-License-Identifier: Apache-2.0

package simulator

import "time"

// wakeTime is how long the preparation of a dormant mail server takes.
const wakeTime = time.Minute

// requireRole returns an operation that calls run. While the application does not have the role, it
// answers no_role instead.
func requireRole(run operation) operation {
	return func(c *call) (any, string) {
		if c.tenant.RoleAt.IsZero() || c.now.Before(c.tenant.RoleAt) {
			return nil, "no_role"
		}
		return run(c)
	}
}

// takeRole gives the application the role if the tenant allows this. Once the role applies,
// takeRole begins the preparation of a dormant mail server. It answers `denied` if the tenant does
// not allow the role, `waiting` until the role applies and the mail server is prepared, and then
// `active`.
func takeRole(c *call) (any, string) {
	t, state := c.tenant, "active"
	switch {
	case t.RoleAt.IsZero() && t.Denied:
		state = "denied"
	case t.RoleAt.IsZero():
		t.RoleAt = c.now.Add(milliseconds(t.Behaviour.RoleMS))
		return takeRole(c)
	case c.now.Before(t.RoleAt):
		state = "waiting"
	case t.Dormant && t.AwakeAt.IsZero():
		t.AwakeAt, state = c.now.Add(wakeTime), "waiting"
	case t.Dormant && c.now.Before(t.AwakeAt):
		state = "waiting"
	}
	return map[string]string{"state": state}, ""
}

func getSMTP(c *call) (any, string) { return map[string]bool{"enabled": c.tenant.SMTP}, "" }

func enableSMTP(c *call) (any, string) {
	if c.tenant.SMTPRefused {
		return nil, "smtp_locked"
	}
	c.tenant.SMTP = true
	return getSMTP(c)
}

func listMailDomains(c *call) (any, string) {
	list := []string{c.tenant.Builtin}
	for _, name := range c.tenant.domainNames() {
		if c.tenant.acceptsMailFor(name, c.now) {
			list = append(list, name)
		}
	}
	return map[string]any{"domains": list}, ""
}

func getSigning(c *call) (any, string) {
	d := c.tenant.Domains[c.http.PathValue("domain")]
	if d == nil || !d.SigningCreated {
		return nil, "no_signing"
	}
	return map[string]any{"enabled": d.SigningEnabled, "records": signingRecords(d.Name)}, ""
}

func createSigning(c *call) (any, string) {
	name := c.http.PathValue("domain")
	if !c.tenant.acceptsMailFor(name, c.now) {
		return nil, "not_ready"
	}
	c.tenant.Domains[name].SigningCreated = true
	return getSigning(c)
}

// enableSigning queries the DNS for the records of both selectors.
func enableSigning(c *call) (any, string) {
	d := c.tenant.Domains[c.http.PathValue("domain")]
	if d == nil || !d.SigningCreated {
		return nil, "no_signing"
	}
	for _, r := range signingRecords(d.Name) {
		if !d.SigningEnabled && !c.isPublished(c.http.Context(), r) {
			return nil, "signing_records_missing"
		}
	}
	d.SigningEnabled = true
	return struct{}{}, ""
}
