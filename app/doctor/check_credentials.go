// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/plugins/wire"
)

// expiryWarning is the time before the expiry of a credential at which doctor begins to warn. It
// leaves the operator enough time to create, register and roll out a new credential.
const expiryWarning = 30 * 24 * time.Hour

// checkCredentials checks the operator's secrets and certificates for the mail platform, and the
// TLS certificate of the service: whether their files can be read, when they expire, and whether
// other users can access a secret or a key.
func (e *examination) checkCredentials(context.Context) finding {
	description, err := e.describe(e.config.MailPlatform)
	if err != nil {
		return skippedFinding("plugins")
	}
	var found []finding
	for _, field := range description.Fields {
		value := e.config.Providers[e.config.MailPlatform][wiring.SettingOf(field)]
		switch {
		case value == "":
		case field.Secret:
			found = append(found, checkSecretFile(field, value, time.Now()))
		case strings.HasSuffix(field.Name, "_expires"):
			found = append(found, checkExpiryDate(field.Name, value, time.Now()))
		}
	}
	if e.config.TLSCertificateFile != "" {
		found = append(found, checkTLSCertificate(e.config, time.Now()))
	}
	if len(found) == 0 {
		return okFinding("no secret or certificate is set")
	}
	return worstFinding(found)
}

// worstFinding returns the most severe finding. If several findings have this severity, it joins
// them into one.
func worstFinding(found []finding) finding {
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

// checkTLSCertificate checks the service's TLS certificate and its key.
func checkTLSCertificate(c settings.Config, now time.Time) finding {
	const fix = "renew the certificate, and replace the files of tls_certificate_file and tls_key_file, the key first"
	chain, err := os.ReadFile(c.TLSCertificateFile)
	if err != nil {
		return failedFinding("make "+c.TLSCertificateFile+" readable for the user of the service, or correct tls_certificate_file", "tls_certificate_file cannot be read: %s", withoutPath(err))
	}
	key, err := os.ReadFile(c.TLSKeyFile)
	if err != nil {
		return failedFinding("make "+c.TLSKeyFile+" readable for the user of the service, or correct tls_key_file", "tls_key_file cannot be read: %s", withoutPath(err))
	}
	expires, problem := wiring.CertificateExpiry(chain, key, now)
	switch {
	case problem != "":
		return failedFinding(fix, "tls_certificate_file: %s", problem)
	case expires.Sub(now) < expiryWarning:
		return warningFinding(fix, "tls_certificate_file: the certificate expires on %s", expires.UTC().Format(time.DateOnly))
	}
	if mode, isOpen := openToOthers(c.TLSKeyFile); isOpen {
		return warningFinding("chmod 600 "+c.TLSKeyFile, "tls_key_file is open to others (mode %#o)", mode)
	}
	return okFinding("tls_certificate_file: the certificate expires on %s", expires.UTC().Format(time.DateOnly))
}

// openToOthers returns the permissions of a file, and whether they allow access to users who are
// neither its owner nor in its group.
func openToOthers(path string) (mode fs.FileMode, isOpen bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	return info.Mode().Perm(), info.Mode().Perm()&0o007 != 0
}

// severity orders the statuses of findings: OK is 0, Warning is 1, Failed is 2.
func severity(f finding) int { return map[string]int{Warning: 1, Failed: 2}[f.status] }

// checkSecretFile checks one file with a secret. The finding does not show the secret.
func checkSecretFile(field wire.Field, path string, now time.Time) finding {
	name := wiring.SettingOf(field)
	raw, err := os.ReadFile(path)
	if err != nil {
		return failedFinding("make "+path+" readable for the user of the service, or correct "+name, "%s cannot be read: %s", name, withoutPath(err))
	}
	if len(strings.TrimSpace(string(raw))) == 0 {
		return failedFinding("write the secret into "+path, "%s: the file is empty", name)
	}
	summary := fmt.Sprintf("%s is readable", name)
	if strings.Contains(field.Name, "certificate") {
		expires, problem := wiring.CertificateExpiry(raw, raw, now)
		if problem != "" {
			return failedFinding("create and register a new certificate, and write it with its key into "+path, "%s: %s", name, problem)
		}
		summary = fmt.Sprintf("%s: the certificate expires on %s", name, expires.UTC().Format(time.DateOnly))
		if expires.Sub(now) < expiryWarning {
			return warningFinding("create and register a new certificate now, and write it with its key into "+path, "%s", summary)
		}
	}
	if mode, isOpen := openToOthers(path); isOpen {
		return warningFinding("chmod 600 "+path, "%s is open to others (mode %#o)", name, mode)
	}
	return okFinding("%s", summary)
}

// withoutPath returns the text of err without the path of the file, which the fix already names.
func withoutPath(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return cli.FirstLine(err)
}

// checkExpiryDate checks the expiry date of a secret. The operator sets the date, because it cannot
// be read from the secret.
func checkExpiryDate(name, date string, now time.Time) finding {
	day, err := time.Parse(time.DateOnly, date)
	renew := "create a new secret at the application's registration, then replace its file and set " + name
	switch {
	case err != nil:
		return failedFinding("write the date as 2027-01-31", "%s: %q is not a date", name, date)
	case now.After(day.AddDate(0, 0, 1)):
		return failedFinding(renew, "the secret expired on %s (%s)", date, name)
	case day.Sub(now) < expiryWarning:
		return warningFinding(renew, "the secret expires on %s (%s)", date, name)
	default:
		return okFinding("the secret expires on %s", date)
	}
}

// checkKeyset checks that the keyset file exists, can be read, contains a valid keyset, and has the
// keys that encrypted the values in the database.
func (e *examination) checkKeyset(ctx context.Context) finding {
	path := e.config.KeysetFile
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e.missingKeyset(ctx, path)
	case err != nil:
		return failedFinding(cli.FixFileAccess+", or correct keyset_file", "the keyset cannot be read: %s", cli.FirstLine(err))
	}
	if _, err := secrets.OpenKeyset(path, secrets.RequireExisting); err != nil {
		fix := "restore the keyset from its backup: " + path
		switch {
		case errors.Is(err, fs.ErrPermission):
			fix = cli.FixFileAccess
		case info.Mode().Perm()&0o027 != 0:
			fix = "chmod 600 " + path
		}
		return failedFinding(fix, "%s", cli.FirstLine(err))
	}
	if db, err := e.openDatabase(); err == nil { // otherwise the check of the database reports the error
		prefixes, err := db.SealedPrefixes(ctx)
		if err != nil {
			return warningFinding(fixDatabase, "the encrypted values in the database cannot be read: %s", cli.FirstLine(err))
		}
		if err := checkSealedValues(path, prefixes); err != nil {
			return failedFinding(wiring.FixMissingKeys, "%s", cli.FirstLine(err))
		}
	}
	return okFinding("%s opens (mode %#o)", path, info.Mode().Perm())
}

func checkSealedValues(path string, prefixes map[string][][]byte) error {
	keyset, err := secrets.ReadKeyset(path)
	if err != nil {
		return err
	}
	return wiring.CheckSealedValues(path, keyset, prefixes)
}

// missingKeyset distinguishes a first start from a lost keyset. The finding is a failure if the
// database has values that a keyset encrypted, because a new keyset cannot decrypt them. In this
// case `tenantry serve` refuses to create a keyset.
func (e *examination) missingKeyset(ctx context.Context, path string) finding {
	if db, err := e.openDatabase(); err == nil {
		if sealed, err := db.HasSealedValues(ctx); err == nil && sealed {
			return failedFinding("restore the keyset from its backup, or correct keyset_file: "+path,
				"there is no keyset, but the database holds values that a keyset encrypted")
		}
	}
	return warningFinding("run `tenantry keyset create`, or start `tenantry serve`, which creates the keyset", "there is no keyset yet: %s", path)
}
