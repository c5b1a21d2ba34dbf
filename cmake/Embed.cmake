# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=file -DOUTPUT=file.inc -P Embed.cmake: writes the bytes of a file as a list of character constants.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," text "${bytes}")
file(WRITE ${OUTPUT} "${text}\n")
