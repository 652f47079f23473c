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
	worst, seen := fine("no secret or certificate is set"), 0
	for _, field := range about.Fields {
		given := e.config.Providers[mailPlatform][settingOf(field)]
		if given == "" {
			continue
		}
		var f finding
		switch {
		case field.Secret:
			f = secretFile(field, given, time.Now())
		case strings.HasSuffix(field.Name, "_expires"):
			f = expiryDate(field.Name, given, time.Now())
		default:
			continue
		}
		if seen++; seen == 1 || severity(f) > severity(worst) {
			worst = f
		} else if severity(f) == severity(worst) {
			worst.summary += "; " + f.summary
			worst.fix = strings.Trim(worst.fix+"; "+f.fix, "; ")
		}
	}
	return worst
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
		end, problem := certificate(raw, now)
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
	return oneLine(err)
}

// certificate reads when a certificate ends, or says why it is of no use.
func certificate(raw []byte, now time.Time) (time.Time, string) {
	pair, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		if block, _ := pem.Decode(raw); block == nil {
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
			if end, _ := certificate(raw, time.Now()); err == nil && !end.IsZero() {
				ends[name] = end
			}
		}
	}
	return ends
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
