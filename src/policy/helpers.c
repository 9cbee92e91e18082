/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/helpers.h"

#include <stddef.h>

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* What each was seen to start in everyday work, and where distributions put it. */
const struct policy_helper policy_helpers[] = {
	{WORDS("gcc", "gcc-*", "g++", "g++-*", "cc", "c++", "cpp", "c89", "c99", "gfortran*", "*-gcc", "*-gcc-*", "*-g++", "*-g++-*"),
         WORDS("/usr/lib/gcc/**", "/usr/libexec/gcc/**", "/usr/lib/gcc-cross/**", "/usr/lib64/gcc/**", "as", "ld", "ld.*", "gold", "ar",
               "ranlib", "nm", "*-as", "*-ld", "*-ld.*", "*-ar", "*-ranlib", "*-nm")},
	{WORDS("clang", "clang-*", "clang++", "clang++-*"),
         WORDS("/usr/lib/llvm-*/bin/clang*", "/usr/lib/llvm-*/bin/ld.lld", "/usr/lib/llvm-*/bin/lld", "ld", "ld.*", "lld*", "*-ld",
               "*-ld.*", "as", "*-as")},
	{WORDS("ar", "ld", "as", "nm", "strip", "objdump", "objcopy", "ranlib", "readelf"),
         WORDS("*-ar", "*-ld", "*-ld.*", "ld.*", "*-as", "*-nm", "*-strip", "*-objdump", "*-objcopy", "*-ranlib", "*-readelf")},
	{WORDS("git"), WORDS("/usr/lib/git-core/*", "/usr/libexec/git-core/*", "git-*", "sh")},
	{WORDS("make", "gmake", "ninja", "meson"), WORDS("sh")},
	{WORDS("cmake", "ctest"), WORDS("make", "sh")},
	{WORDS("npm", "npx", "yarn", "pnpm", "corepack"), WORDS("node", "nodejs", "sh", "env")},
	{WORDS("pip", "pip3", "pip3.*", "pipx", "virtualenv", "pytest", "pytest-3"), WORDS("python3")},
	{WORDS("python", "python3"), WORDS("python3.*")},
	{WORDS("ruby"), WORDS("ruby?.?")},
	{WORDS("gem", "bundle", "bundler", "rake", "irb"), WORDS("ruby")},
	{WORDS("java", "javac", "jar"), WORDS("/usr/lib/jvm/*/lib/jspawnhelper")},
	{WORDS("mvn", "gradle"), WORDS("java", "sh")},
	{WORDS("go"), WORDS("/usr/local/go/pkg/tool/**", "/usr/lib/go*/pkg/tool/**", "/usr/share/go*/pkg/tool/**", "/usr/local/go/bin/*")},
	{WORDS("cargo", "rustc"), WORDS("rustc", "cc", "ld", "ld.*")},
	{WORDS("tar"), WORDS("gzip", "bzip2", "xz", "zstd")},
	{WORDS("zcat", "gunzip", "zgrep", "zless", "ldd", "xzcat", "which"), WORDS("sh", "gzip", "grep", "which.*")},
	{NULL, NULL},
};
