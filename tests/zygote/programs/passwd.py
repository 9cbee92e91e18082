# SPDX-License-Identifier: Apache-2.0
import getpass, pwd

print(getpass.getuser(), pwd.getpwnam("user").pw_dir, pwd.getpwnam("user").pw_shell)
