// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/plugins/wire"
)

// expiryWarning is how long before the end of a credential doctor warns: a new
// one has to be made, registered and rolled out.
const expiryWarning = 30 * 24 * time.Hour

// credentials looks at the operator's own secrets: their files, and when they
// end.
func (e *examination) credentials(context.Context) finding {
	about, err := e.about(mailPlatform)
	if err != nil {
		return unchecked("plugins")
	}
	var found []finding
	for _, field := range about.Fields {
		given := e.config.Providers[mailPlatform][settingOf(field)]
		switch {
		case given == "":
		case field.Secret:
			found = append(found, secretFile(field, given, time.Now()))
		case strings.HasSuffix(field.Name, "_expires"):
			found = append(found, expiryDate(field.Name, given, time.Now()))
		}
	}
	if e.config.TLSCertificateFile != "" {
		found = append(found, ownCertificate(e.config, time.Now()))
	}
	if len(found) == 0 {
		return fine("no secret or certificate is set")
	}
	return gravest(found)
}

// gravest is the worst of findings, or all that are equally bad in one.
func gravest(found []finding) finding {
	worst := found[0]
	for _, f := range found[1:] {
		switch {
		case severity(f) > severity(worst):
			worst = f
		case severity(f) == severity(worst):
			worst.summary += "; " + f.summary
			worst.fix = strings.Trim(worst.fix+"; "+f.fix, "; ")
		}
	}
	return worst
}

// ownCertificate looks at the certificate that the service itself speaks TLS
// with.
func ownCertificate(c settings.Config, now time.Time) finding {
	const fix = "renew the certificate, and replace the files of tls_certificate_file and tls_key_file, the key first"
	chain, err := os.ReadFile(c.TLSCertificateFile)
	if err != nil {
		return broken("make "+c.TLSCertificateFile+" readable for the user of the service, or correct tls_certificate_file", "tls_certificate_file cannot be read: %s", why(err))
	}
	key, err := os.ReadFile(c.TLSKeyFile)
	if err != nil {
		return broken("make "+c.TLSKeyFile+" readable for the user of the service, or correct tls_key_file", "tls_key_file cannot be read: %s", why(err))
	}
	end, problem := certificate(chain, key, now)
	switch {
	case problem != "":
		return broken(fix, "tls_certificate_file: %s", problem)
	case end.Sub(now) < expiryWarning:
		return doubtful(fix, "tls_certificate_file: the certificate ends on %s", end.UTC().Format(time.DateOnly))
	default:
		return fine("tls_certificate_file: the certificate ends on %s", end.UTC().Format(time.DateOnly))
	}
}

func severity(f finding) int { return map[string]int{isWarning: 1, isFailed: 2}[f.status] }

// secretFile looks at one file with a secret. Nothing of its content is told
// but the dates of a certificate.
func secretFile(field wire.Field, path string, now time.Time) finding {
	name := settingOf(field)
	raw, err := os.ReadFile(path)
	if err != nil {
		return broken("make "+path+" readable for the user of the service, or correct "+name, "%s cannot be read: %s", name, why(err))
	}
	if len(strings.TrimSpace(string(raw))) == 0 {
		return broken("write the secret into "+path, "%s: the file is empty", name)
	}
	dates := fmt.Sprintf("%s is readable", name)
	if strings.Contains(field.Name, "certificate") {
		end, problem := certificate(raw, raw, now)
		if problem != "" {
			return broken("make and register a new certificate, and write it with its key into "+path, "%s: %s", name, problem)
		}
		dates = fmt.Sprintf("%s: the certificate ends on %s", name, end.UTC().Format(time.DateOnly))
		if end.Sub(now) < expiryWarning {
			return doubtful("make and register a new certificate now, and write it with its key into "+path, "%s", dates)
		}
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o007 != 0 {
		return doubtful("chmod 600 "+path, "%s is open to others (mode %#o)", name, info.Mode().Perm())
	}
	return fine("%s", dates)
}

// why leaves the path out, which the fix names.
func why(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return cli.OneLine(err)
}

// certificate reads when a certificate ends, or says why it is of no use.
func certificate(chain, key []byte, now time.Time) (time.Time, string) {
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		if block, _ := pem.Decode(chain); block == nil {
			return time.Time{}, "the file holds no PEM"
		}
		return time.Time{}, cmp.Or(strings.TrimPrefix(err.Error(), "tls: "), "it cannot be read")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	switch {
	case err != nil:
		return time.Time{}, "the certificate cannot be read"
	case now.After(leaf.NotAfter):
		return leaf.NotAfter, "the certificate ended on " + leaf.NotAfter.UTC().Format(time.DateOnly)
	case now.Before(leaf.NotBefore):
		return time.Time{}, "the certificate is not valid before " + leaf.NotBefore.UTC().Format(time.DateOnly)
	}
	return leaf.NotAfter, ""
}

// expiries are the ends of a provider's credentials, as far as they can be
// known, by setting.
func expiries(settings map[string]string) map[string]time.Time {
	ends := map[string]time.Time{}
	for name, given := range settings {
		switch {
		case strings.HasSuffix(name, "_expires"):
			if day, err := time.Parse(time.DateOnly, given); err == nil {
				ends[name] = day.AddDate(0, 0, 1)
			}
		case strings.HasSuffix(name, "certificate_file"):
			raw, err := os.ReadFile(given)
			if end, _ := certificate(raw, raw, time.Now()); err == nil && !end.IsZero() {
				ends[name] = end
			}
		}
	}
	return ends
}

// ownExpiry is the end of the certificate that the service itself speaks TLS
// with, if it has one.
func ownExpiry(c settings.Config) (end time.Time, ok bool) {
	chain, errChain := os.ReadFile(c.TLSCertificateFile)
	key, errKey := os.ReadFile(c.TLSKeyFile)
	if errChain != nil || errKey != nil {
		return end, false
	}
	end, _ = certificate(chain, key, time.Now())
	return end, !end.IsZero()
}

// expiryDate judges a date that the operator noted: what ends then cannot be
// asked.
func expiryDate(name, given string, now time.Time) finding {
	day, err := time.Parse(time.DateOnly, given)
	renew := "make a new secret where the application is registered, then set its file and " + name
	switch {
	case err != nil:
		return broken("write it as 2027-01-31", "%s: %q is no date", name, given)
	case now.After(day.AddDate(0, 0, 1)):
		return broken(renew, "the secret ended on %s (%s)", given, name)
	case day.Sub(now) < expiryWarning:
		return doubtful(renew, "the secret ends on %s (%s)", given, name)
	default:
		return fine("the secret ends on %s", given)
	}
}
