/* The version of this library, for slackline doctor, which reads it from the file without loading it. */
__attribute__((used)) static const char version[] = "slackline-probe-version " SL_VERSION;
