// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"
	"strings"
	"time"
)

type dkimConfig struct {
	Domain      string    `json:"domain"`
	HasKeys     bool      `json:"keys"`
	KeySize     int       `json:"key_size"`
	Enabled     bool      `json:"enabled"`
	Targets     [2]string `json:"targets"`
	Created     time.Time `json:"created"`
	LastChecked time.Time `json:"checked"`
}

// dkimConfig returns the DKIM configuration of a domain, or nil.
func (t *tenant) dkimConfig(name string) *dkimConfig {
	for i := range t.Exchange.DKIM {
		if strings.EqualFold(t.Exchange.DKIM[i].Domain, name) {
			return &t.Exchange.DKIM[i]
		}
	}
	return nil
}

// dkimTargets returns the two host names to which the CNAME records of the domain's selectors must
// point.
func (t *tenant) dkimTargets(domain string) [2]string {
	end := t.Prefix + ".onmicrosoft.com"
	if t.Behaviour.DKIMStyle[domain] != "classic" {
		end = t.Prefix + "." + t.Behaviour.DKIMLetter + "-v1.dkim.mail.microsoft"
	}
	var targets [2]string
	for i := range targets {
		targets[i] = "selector" + strconv.Itoa(i+1) + "-" + dashedName(domain, "01i") + "._domainkey." + end
	}
	return targets
}

// lookupSelectorCNAMEs queries the CNAME records of both selectors of the domain. The keys of the
// result have the form "<selector> <target>".
func lookupSelectorCNAMEs(call *invocation) map[string]bool {
	domain := call.dkimDomain()
	cnames := map[string]bool{}
	for _, selector := range []string{"selector1", "selector2"} {
		for _, host := range call.s.lookupOrLog(call.r.Context(), selector+"._domainkey."+domain, "CNAME") {
			cnames[selector+" "+host] = true
		}
	}
	return cnames
}

// dkimDomain returns the domain in the parameters of a DKIM cmdlet, in lower case.
func (call *invocation) dkimDomain() string {
	return strings.ToLower(call.params.text("DomainName") + call.params.text("Identity"))
}

// hasPublishedCNAMEs reports whether the CNAME records of both selectors point to their targets.
// cnames is the result of lookupSelectorCNAMEs.
func (c *dkimConfig) hasPublishedCNAMEs(cnames map[string]bool) bool {
	return cnames["selector1 "+strings.ToLower(c.Targets[0])] && cnames["selector2 "+strings.ToLower(c.Targets[1])]
}

// dkimRow returns a configuration as Get-DkimSigningConfig shows it.
func (t *tenant) dkimRow(config dkimConfig) object {
	status, keyPrefix := "CnameMissing", "v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A"
	switch {
	case !config.HasKeys:
		status = "NoDKIMKeys"
	case config.Enabled:
		status = "Valid"
	}
	row := object{
		"Domain": config.Domain, "Name": config.Domain, "Identity": config.Domain, "Enabled": config.Enabled, "Status": status,
		"IsDefault": config.Domain == t.initialDomain(), "Selector1CNAME": config.Targets[0], "Selector2CNAME": config.Targets[1],
		"Selector1KeySize": config.KeySize, "Selector2KeySize": config.KeySize,
		"Selector1PublicKey": "", "Selector2PublicKey": "",
		"SelectorBeforeRotateOnDate": "selector2", "SelectorAfterRotateOnDate": "selector1",
		"KeyCreationTime": config.Created, "RotateOnDate": config.Created, "LastChecked": config.LastChecked,
		"HeaderCanonicalization": "Relaxed", "BodyCanonicalization": "Relaxed", "Algorithm": "RsaSHA256",
	}
	if config.HasKeys {
		row["Selector1PublicKey"] = keyPrefix + deriveText("selector1", t.ID, config.Domain) + ";"
		row["Selector2PublicKey"] = keyPrefix + deriveText("selector2", t.ID, config.Domain) + ";"
	}
	return row
}

// getDKIMConfig runs Get-DkimSigningConfig. The initial domain always has an enabled configuration.
func getDKIMConfig(call *invocation, t *tenant, _ map[string]bool) outcome {
	initial := dkimConfig{Domain: t.initialDomain(), HasKeys: true, KeySize: 2048, Enabled: true, Targets: t.dkimTargets(t.initialDomain()),
		Created: t.Created, LastChecked: t.Created}
	configs := append([]dkimConfig{initial}, t.Exchange.DKIM...)
	rows := []object{}
	for _, c := range configs {
		if (!call.params.has("Identity") || strings.EqualFold(c.Domain, call.params.text("Identity"))) &&
			t.acceptsMail(c.Domain, call.now) {
			rows = append(rows, t.dkimRow(c))
		}
	}
	if call.params.has("Identity") && len(rows) == 0 {
		return outcome{failure: errNoObject.with(call.params.text("Identity"))}
	}
	return outcome{rows: rows}
}

// newDKIMConfig runs New-DkimSigningConfig for an accepted domain. If Enabled is true and the CNAME
// records are missing, it fails, but it still creates a disabled configuration.
func newDKIMConfig(call *invocation, t *tenant, cnames map[string]bool) outcome {
	domain, size := call.dkimDomain(), 1024
	if n, ok := call.params["keysize"].(float64); ok {
		size = int(n)
	}
	switch {
	case t.Exchange.isDehydrated(call.now):
		return outcome{failure: errDehydrated.with("")}
	case size != 1024 && size != 2048:
		return outcome{failure: errTransform.with("'KeySize'. The value is 1024 or 2048.")}
	case !t.acceptsMail(domain, call.now):
		return outcome{failure: errNoObject.with(domain)}
	case t.dkimConfig(domain) != nil || domain == t.initialDomain():
		return outcome{failure: errDKIMExists.with(domain)}
	}
	c := dkimConfig{Domain: domain}
	c.createKeys(call, t, size)
	t.Exchange.DKIM = append(t.Exchange.DKIM, c)
	config := t.dkimConfig(domain)
	if call.params.isTrue("Enabled") && !config.hasPublishedCNAMEs(cnames) {
		return outcome{failure: errNoCNAME.with(domain + " " + strings.Join(config.Targets[:], " "))}
	}
	config.Enabled = call.params.isTrue("Enabled")
	return outcome{rows: []object{t.dkimRow(*config)}}
}

// createKeys records that a configuration has keys of this size in bits.
func (c *dkimConfig) createKeys(call *invocation, t *tenant, size int) {
	c.HasKeys, c.KeySize, c.Targets = true, size, t.dkimTargets(c.Domain)
	c.Created, c.LastChecked = call.now, call.now
}

// setDKIMConfig runs Set-DkimSigningConfig. Enabling requires both CNAME records. If the
// configuration has no keys, a call with the parameter Enabled creates them, even if the call fails
// because a record is missing.
func setDKIMConfig(call *invocation, t *tenant, cnames map[string]bool) outcome {
	config := t.dkimConfig(call.dkimDomain())
	switch {
	case t.Exchange.isDehydrated(call.now):
		return outcome{failure: errDehydrated.with("")}
	case config == nil || !t.acceptsMail(config.Domain, call.now):
		return outcome{failure: errNoObject.with(call.params.text("Identity"))}
	}
	enable := call.params.isTrue("Enabled")
	if !call.params.has("Enabled") || config.HasKeys && config.Enabled == enable {
		return nothingModified(config.Domain)
	}
	if !config.HasKeys {
		config.createKeys(call, t, 2048)
	}
	config.LastChecked = call.now
	if enable && !config.hasPublishedCNAMEs(cnames) {
		return outcome{failure: errNoCNAME.with(config.Domain + " " + strings.Join(config.Targets[:], " "))}
	}
	config.Enabled = enable
	return outcome{}
}
