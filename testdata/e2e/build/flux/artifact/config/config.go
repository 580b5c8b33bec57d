// Package config has the settings of the folder that source-controller keeps
// its archives in, with the flags that the published one has.
package config

import (
	"os"
	"time"

	"github.com/spf13/pflag"
)

// Options says where archives are kept, and under which address.
type Options struct {
	StoragePath              string
	StorageAddress           string
	StorageAdvAddress        string
	ArtifactRetentionTTL     time.Duration
	ArtifactRetentionRecords int
	ArtifactDigestAlgo       string
}

// BindFlags adds the flags.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.StoragePath, "storage-path", os.Getenv("STORAGE_PATH"), "folder of the archives")
	flags.StringVar(&o.StorageAddress, "storage-addr", os.Getenv("STORAGE_ADDRESS"), "address to serve them on")
	flags.StringVar(&o.StorageAdvAddress, "storage-adv-addr", os.Getenv("STORAGE_ADV_ADDR"), "address that others are told")
	flags.DurationVar(&o.ArtifactRetentionTTL, "artifact-retention-ttl", time.Minute, "how long an old archive is kept")
	flags.IntVar(&o.ArtifactRetentionRecords, "artifact-retention-records", 2, "how many old archives are kept")
	flags.StringVar(&o.ArtifactDigestAlgo, "artifact-digest-algo", "sha256", "how archives are summed up")
}
