// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"
	"strings"
)

// targets are the two names that a domain's selectors have to point to.
func (t *tenant) targets(domain string) [2]string {
	end := t.Prefix + ".onmicrosoft.com"
	if t.Behaviour.DKIMStyle[domain] != "classic" {
		end = t.Prefix + "." + t.Behaviour.DKIMLetter + "-v1.dkim.mail.microsoft"
	}
	var out [2]string
	for i := range out {
		out[i] = "selector" + strconv.Itoa(i+1) + "-" + dashed(domain, "01i") + "._domainkey." + end
	}
	return out
}

// askCNAMEs looks both selectors of the named domain up and tells what each
// points to.
func askCNAMEs(in *invocation) map[string]bool {
	domain := in.signingDomain()
	seen := map[string]bool{}
	for _, selector := range []string{"selector1", "selector2"} {
		for _, host := range in.s.finds(in.r.Context(), selector+"._domainkey."+domain, "CNAME") {
			seen[selector+" "+host] = true
		}
	}
	return seen
}

// signingDomain is the domain that a DKIM cmdlet is about.
func (in *invocation) signingDomain() string {
	return strings.ToLower(in.params.text("DomainName") + in.params.text("Identity"))
}

// published reports whether both selectors point where they should.
func (c *dkimConfig) published(seen map[string]bool) bool {
	return seen["selector1 "+strings.ToLower(c.Targets[0])] && seen["selector2 "+strings.ToLower(c.Targets[1])]
}

func (t *tenant) signingRow(c dkimConfig) object {
	status, key := "CnameMissing", "v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A"
	switch {
	case !c.Keys:
		status = "NoDKIMKeys"
	case c.Enabled:
		status = "Valid"
	}
	row := object{
		"Domain": c.Domain, "Name": c.Domain, "Identity": c.Domain, "Enabled": c.Enabled, "Status": status,
		"IsDefault": c.Domain == t.initial(), "Selector1CNAME": c.Targets[0], "Selector2CNAME": c.Targets[1],
		"Selector1KeySize": c.KeySize, "Selector2KeySize": c.KeySize,
		"Selector1PublicKey": "", "Selector2PublicKey": "",
		"SelectorBeforeRotateOnDate": "selector2", "SelectorAfterRotateOnDate": "selector1",
		"KeyCreationTime": c.Created, "RotateOnDate": c.Created, "LastChecked": c.Checked,
		"HeaderCanonicalization": "Relaxed", "BodyCanonicalization": "Relaxed", "Algorithm": "RsaSHA256",
	}
	if c.Keys {
		row["Selector1PublicKey"] = key + digest("selector1", t.ID, c.Domain) + ";"
		row["Selector2PublicKey"] = key + digest("selector2", t.ID, c.Domain) + ";"
	}
	return row
}

func getSigning(in *invocation, t *tenant, _ map[string]bool) outcome {
	initial := dkimConfig{Domain: t.initial(), Keys: true, KeySize: 2048, Enabled: true, Targets: t.targets(t.initial()),
		Created: t.Created, Checked: t.Created}
	all := append([]dkimConfig{initial}, t.Exchange.Signing...)
	rows := []object{}
	for _, c := range all {
		if (!in.params.has("Identity") || strings.EqualFold(c.Domain, in.params.text("Identity"))) &&
			t.accepted(c.Domain, in.now) {
			rows = append(rows, t.signingRow(c))
		}
	}
	if in.params.has("Identity") && len(rows) == 0 {
		return outcome{failed: errNoObject.of(in.params.text("Identity"))}
	}
	return outcome{rows: rows}
}

// newSigning makes the keys of an accepted domain. Enabling at once fails while
// the CNAMEs are missing, and leaves the configuration behind, disabled.
func newSigning(in *invocation, t *tenant, seen map[string]bool) outcome {
	domain, size := in.signingDomain(), 1024
	if n, ok := in.params["keysize"].(float64); ok {
		size = int(n)
	}
	switch {
	case t.Exchange.dehydrated(in.now):
		return outcome{failed: errDehydrated.of("")}
	case size != 1024 && size != 2048:
		return outcome{failed: errTransform.of("'KeySize'. The value is 1024 or 2048.")}
	case !t.accepted(domain, in.now):
		return outcome{failed: errNoObject.of(domain)}
	case t.signing(domain) != nil || domain == t.initial():
		return outcome{failed: errSigningExists.of(domain)}
	}
	c := dkimConfig{Domain: domain}
	c.makeKeys(in, t, size)
	t.Exchange.Signing = append(t.Exchange.Signing, c)
	made := t.signing(domain)
	if in.params.yes("Enabled") && !made.published(seen) {
		return outcome{failed: errNoCNAME.of(domain + " " + strings.Join(made.Targets[:], " "))}
	}
	made.Enabled = in.params.yes("Enabled")
	return outcome{rows: []object{t.signingRow(*made)}}
}

func (c *dkimConfig) makeKeys(in *invocation, t *tenant, size int) {
	c.Keys, c.KeySize, c.Targets = true, size, t.targets(c.Domain)
	c.Created, c.Checked = in.now, in.now
}

// setSigning enables signing once the DNS shows both CNAMEs. A configuration
// that is listed without keys gets them by the first attempt.
func setSigning(in *invocation, t *tenant, seen map[string]bool) outcome {
	c := t.signing(in.signingDomain())
	switch {
	case t.Exchange.dehydrated(in.now):
		return outcome{failed: errDehydrated.of("")}
	case c == nil || !t.accepted(c.Domain, in.now):
		return outcome{failed: errNoObject.of(in.params.text("Identity"))}
	}
	want := in.params.yes("Enabled")
	if !in.params.has("Enabled") || c.Keys && c.Enabled == want {
		return unchanged(c.Domain)
	}
	if !c.Keys {
		c.makeKeys(in, t, 2048)
	}
	c.Checked = in.now
	if want && !c.published(seen) {
		return outcome{failed: errNoCNAME.of(c.Domain + " " + strings.Join(c.Targets[:], " "))}
	}
	c.Enabled = want
	return outcome{}
}
